// The host build's door to the second implementation.
#pragma once
#include "reference.cuh"

extern "C" {

int gpuemu_reference_fields() { return (int)(sizeof(reference::Call) / sizeof(i64)); }

void gpuemu_reference(const reference::Call* call) {
  const i64 count = call->waves * call->blocks * call->m * call->n;
  for (i64 number = 0; number < count; ++number) reference::compute(*call, number);
}
}
