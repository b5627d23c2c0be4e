#include "engine/wire/names.hpp"

namespace openmrc::wire {

namespace {

const char* name_of_rc(Opcode opcode) {
  switch (opcode) {
    case Opcode::kRcSendFirst:
      return "rc_send_first";
    case Opcode::kRcSendMiddle:
      return "rc_send_middle";
    case Opcode::kRcSendLast:
      return "rc_send_last";
    case Opcode::kRcSendLastImm:
      return "rc_send_last_imm";
    case Opcode::kRcSendOnly:
      return "rc_send_only";
    case Opcode::kRcSendOnlyImm:
      return "rc_send_only_imm";
    case Opcode::kRcWriteFirst:
      return "rc_write_first";
    case Opcode::kRcWriteMiddle:
      return "rc_write_middle";
    case Opcode::kRcWriteLast:
      return "rc_write_last";
    case Opcode::kRcWriteLastImm:
      return "rc_write_last_imm";
    case Opcode::kRcWriteOnly:
      return "rc_write_only";
    case Opcode::kRcWriteOnlyImm:
      return "rc_write_only_imm";
    case Opcode::kRcReadRequest:
      return "rc_read_request";
    case Opcode::kRcReadResponseFirst:
      return "rc_read_response_first";
    case Opcode::kRcReadResponseMiddle:
      return "rc_read_response_middle";
    case Opcode::kRcReadResponseLast:
      return "rc_read_response_last";
    case Opcode::kRcReadResponseOnly:
      return "rc_read_response_only";
    case Opcode::kRcAck:
      return "rc_ack";
    case Opcode::kRcAtomicAck:
      return "rc_atomic_ack";
    case Opcode::kRcCompareSwap:
      return "rc_compare_swap";
    case Opcode::kRcFetchAdd:
      return "rc_fetch_add";
    default:
      return "unknown";
  }
}

}  // namespace

const char* name_of(ParseError error) {
  switch (error) {
    case ParseError::kNone:
      return "none";
    case ParseError::kTooShort:
      return "too_short";
    case ParseError::kUnknownOpcode:
      return "unknown_opcode";
    case ParseError::kBadVersion:
      return "bad_version";
    case ParseError::kBadTimestampFormat:
      return "bad_timestamp_format";
    case ParseError::kBadSackType:
      return "bad_sack_type";
    case ParseError::kBadNackType:
      return "bad_nack_type";
    case ParseError::kBadNackReason:
      return "bad_nack_reason";
    case ParseError::kBadCcType:
      return "bad_cc_type";
    case ParseError::kBadEndpointOp:
      return "bad_endpoint_op";
    case ParseError::kBadSyndrome:
      return "bad_syndrome";
    case ParseError::kBadPad:
      return "bad_pad";
    case ParseError::kUnexpectedPayload:
      return "unexpected_payload";
    case ParseError::kBadJoin:
      return "bad_join";
    case ParseError::kCount:
      break;
  }
  return "unknown";
}

const char* name_of(Opcode opcode) {
  if (is_rc(opcode)) return name_of_rc(opcode);
  switch (opcode) {
    case Opcode::kWriteFirst:
      return "write_first";
    case Opcode::kWriteMiddle:
      return "write_middle";
    case Opcode::kWriteLast:
      return "write_last";
    case Opcode::kWriteLastImm:
      return "write_last_imm";
    case Opcode::kWriteOnly:
      return "write_only";
    case Opcode::kWriteOnlyImm:
      return "write_only_imm";
    case Opcode::kAck:
      return "ack";
    case Opcode::kEndpointRequest:
      return "endpoint_request";
    case Opcode::kEndpointResponse:
      return "endpoint_response";
    case Opcode::kSack:
      return "sack";
    case Opcode::kNack:
      return "nack";
    case Opcode::kProbe:
      return "probe";
    default:
      return "unknown";
  }
}

}  // namespace openmrc::wire
