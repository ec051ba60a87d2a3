// The host build's door to the making and comparing of cases.
#pragma once
#include "cases.cuh"

extern "C" {

void gpuemu_draw(const cases::Draw* call) {
  for (i64 n = 0; n < call->cases * call->size; ++n) cases::draw(*call, n);
}
void gpuemu_raise(const cases::Powers* call) {
  for (i64 n = 0; n < call->count; ++n) cases::raise(*call, n);
}
void gpuemu_encode(const cases::Encode* call) {
  for (i64 n = 0; n < call->count; ++n) cases::encode(*call, n);
}
void gpuemu_pack(const cases::Pack* call) {
  for (i64 n = 0; n < call->cases * call->words; ++n) cases::pack(*call, n);
}
void gpuemu_compare(const cases::Compare* call) {
  for (i64 n = 0; n < call->cases * call->words; ++n) cases::compare(*call, n);
}
}
