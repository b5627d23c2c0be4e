#include "bindings/record.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <vector>

namespace openmrc::bindings {
namespace {

[[noreturn]] void raise(const nb::object& type, const nb::object& error) {
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

nb::object nearest(const std::string& name, const std::vector<std::string>& known) {
  return nb::module_::import_("openmrc.errors").attr("did_you_mean")(name, known);
}

[[noreturn]] void refuse_value(const FieldRule& field, nb::handle value, const std::string& allowed,
                               const nb::object& hint) {
  const nb::object type = nb::module_::import_("openmrc.errors").attr("ConfigError");
  raise(type, type(field.name, value, allowed, nb::arg("hint") = hint));
}

std::string joined(const std::vector<std::string>& names, const char* last = " or ") {
  std::string words;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) words.append(i + 1 == names.size() ? last : ", ");
    words.append(names[i]);
  }
  return words;
}

[[noreturn]] void refuse_name(const RecordRule& rule, const std::string& name, nb::handle value) {
  std::vector<std::string> known;
  for (const FieldRule& field : rule.fields) known.emplace_back(field.name);
  refuse_value({.name = name.c_str()}, value, joined(known, ", "), nearest(name, known));
}

std::vector<std::string> names_of(const FieldRule& field) {
  std::vector<std::string> names;
  for (const Choice& choice : field.choices) names.emplace_back(choice.name);
  if (field.names != nullptr) {
    for (const std::string_view name : field.names()) names.emplace_back(name);
  }
  return names;
}

std::string range_of(const FieldRule& field) {
  std::string words = "a whole number from " + std::to_string(field.min) + " to " + std::to_string(field.max);
  if (field.multiple_of > 1) words += ", a multiple of " + std::to_string(field.multiple_of);
  return words;
}

bool is_choice(const FieldRule& field, std::uint64_t number) {
  return std::any_of(field.choices.begin(), field.choices.end(),
                     [&](const Choice& choice) { return choice.number == number; });
}

bool integer_allowed(const FieldRule& field, PyObject* value) {
  if (!PyLong_Check(value) || PyBool_Check(value)) return false;
  const std::uint64_t number = PyLong_AsUnsignedLongLong(value);
  if (number == ~std::uint64_t{0} && PyErr_Occurred() != nullptr) {  // negative, or more than 64 bits
    PyErr_Clear();
    return false;
  }
  if (!field.choices.empty()) return is_choice(field, number);
  return number >= field.min && number <= field.max && number % field.multiple_of == 0;
}

void check_integer(const FieldRule& field, PyObject* value) {
  if (integer_allowed(field, value)) return;
  refuse_value(field, value, field.choices.empty() ? range_of(field) : joined(names_of(field)), nb::none());
}

bool text_allowed(const FieldRule& field, std::string_view text) {
  if (field.names != nullptr) {
    const auto names = field.names();
    return std::find(names.begin(), names.end(), text) != names.end();
  }
  return field.choices.empty() || std::any_of(field.choices.begin(), field.choices.end(),
                                              [&](const Choice& choice) { return text == choice.name; });
}

void check_text(const FieldRule& field, PyObject* value) {
  const bool is_text = PyUnicode_Check(value);
  if (is_text && text_allowed(field, nb::cast<std::string>(nb::handle(value)))) return;
  const std::vector<std::string> names = names_of(field);
  const nb::object hint =
      is_text && !names.empty() ? nearest(nb::cast<std::string>(nb::handle(value)), names) : nb::object(nb::none());
  refuse_value(field, value, names.empty() ? "text" : joined(names), hint);
}

// Checked by name: the classes belong to packages above this one.
void check_object(const FieldRule& field, PyObject* value) {
  for (const nb::handle base : nb::borrow<nb::tuple>(nb::handle(value).type().attr("__mro__"))) {
    if (nb::cast<std::string>(base.attr("__name__")) == field.type_name) return;
  }
  refuse_value(field, value, std::string("of type ") + field.type_name, nb::none());
}

void check_one(const FieldRule& field, PyObject* value) {
  switch (field.kind) {
    case FieldKind::kInteger:
      return check_integer(field, value);
    case FieldKind::kBoolean:
      if (!PyBool_Check(value)) refuse_value(field, value, "True or False", nb::none());
      return;
    case FieldKind::kText:
      return check_text(field, value);
    case FieldKind::kObject:
      return check_object(field, value);
    case FieldKind::kRecord:
      if (!PyDict_Check(value)) refuse_value(field, value, std::string("values of ") + field.record->name, nb::none());
      check(*field.record, nb::borrow<nb::dict>(value));
      return;
  }
}

void check_field(const FieldRule& field, PyObject* value) {
  if (value == Py_None && field.nullable) return;
  if (!field.list) return check_one(field, value);
  if (!PyList_Check(value)) refuse_value(field, value, "a list", nb::none());
  for (const nb::handle one : nb::borrow<nb::list>(value)) check_one(field, one.ptr());
}

bool named(PyObject* key, const FieldRule& field) {
  return PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, field.name) == 0;
}

// Dictionaries mostly follow the order of the fields, so the search begins after the field of the previous key.
std::size_t index_of(const RecordRule& rule, PyObject* key, std::size_t expected) {
  const std::size_t count = rule.fields.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = (expected + i) % count;
    if (named(key, rule.fields[index])) return index;
  }
  return count;
}

}  // namespace

Values check(const RecordRule& rule, const nb::dict& from) {
  Values values{};
  std::size_t expected = 0;
  for (const auto [key, value] : from) {
    const std::size_t index = index_of(rule, key.ptr(), expected);
    if (index == rule.fields.size()) refuse_name(rule, nb::cast<std::string>(nb::str(key)), value);
    values[index] = value.ptr();
    expected = index + 1;
  }
  for (std::size_t i = 0; i < rule.fields.size(); ++i) {
    const FieldRule& field = rule.fields[i];
    if (values[i] != nullptr) {
      check_field(field, values[i]);
    } else if (field.required) {
      refuse_value(field, nb::none(), std::string("a value: ") + rule.name + " needs it", nb::none());
    }
  }
  return values;
}

std::uint64_t unsigned_of(nb::handle value) {
  const std::uint64_t number = PyLong_AsUnsignedLongLong(value.ptr());
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return number;
}

}  // namespace openmrc::bindings
