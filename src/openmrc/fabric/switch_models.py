"""Switch models that a fabric file may name.

Capacities and port counts as published by the manufacturers. A model by its capacity alone is a switch of 100G lanes,
each of which may be a port, as the paper counts: 51.2 Tb/s are 64 ports of 800G or 512 of 100G (paper notes, B).
"""

from __future__ import annotations

from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric.materials import SwitchModel

__all__ = ["SWITCH_MODELS", "switch_model"]

SWITCH_MODELS: dict[str, SwitchModel] = {
    model.name: model
    for model in (
        SwitchModel("12.8T", 12_800 * 10**9, 128),
        SwitchModel("25.6T", 25_600 * 10**9, 256),
        SwitchModel("51.2T", 51_200 * 10**9, 512),
        SwitchModel("102.4T", 102_400 * 10**9, 1024),
        SwitchModel("tomahawk4", 25_600 * 10**9, 256),
        SwitchModel("tomahawk5", 51_200 * 10**9, 256),
        SwitchModel("tomahawk6", 102_400 * 10**9, 512),
        SwitchModel("spectrum-4", 51_200 * 10**9, 256),
    )
}


def switch_model(name: str) -> SwitchModel:
    """The switch model of this name.

    Raises:
        ConfigError: the name is unknown; the message lists the known ones.
    """
    model = SWITCH_MODELS.get(name)
    if model is None:
        own = "a model of your own: {name: mine, capacity: 51.2Tbit, ports: 512}"
        hint = did_you_mean(name.lower(), SWITCH_MODELS) or own
        raise ConfigError("switch", name, f"{', '.join(SWITCH_MODELS)}, or name, capacity and ports", hint=hint)
    return model
