// RUN: %opt -p inline,materialize-calls,simplify,lower-xla-to-scf,flatten-tensors %s --split-input-file | filecheck %s

// gelu bf16 [6, 512, 4096]: one linear map for the read and the write, no floordiv or mod left.

func.func @gelu(%input: tensor<6x512x4096xbf16>, %output: tensor<6x512x4096xbf16>) -> tensor<6x512x4096xbf16> attributes {xla.entry} {
  %tile = xla.tile_id [0, 15]
  %0 = xla.loop (%tile)[%step, %lane] -> (%d0, %d1, %d2) in #xla.indexing_map<"(tile)[step, lane] -> ((tile * 786432 + step * 16384 + lane) floordiv 2097152, ((tile * 786432 + step * 16384 + lane) floordiv 4096) mod 512, (tile * 786432 + step * 16384 + lane) mod 4096), domain: tile in [0, 15], step in [0, 47], lane in [0, 16383]"> lanes 1 iter_args(%t = %output) -> (tensor<6x512x4096xbf16>) {
    %1 = xla.pure_call @gelu_multiply(%input, %d0, %d1, %d2) : (tensor<6x512x4096xbf16>, index, index, index) -> bf16
    %2 = tensor.insert %1 into %t[%d0, %d1, %d2] : tensor<6x512x4096xbf16>
    xla.yield %2 : tensor<6x512x4096xbf16>
  }
  func.return %0 : tensor<6x512x4096xbf16>
}
func.func private @gelu_multiply(%p0: tensor<6x512x4096xbf16>, %i: index, %j: index, %k: index) -> bf16 {
  %half = arith.constant 0.5 : bf16
  %one = arith.constant 1.0 : bf16
  %root = arith.constant 0.796875 : bf16
  %cubic = arith.constant 0.0446777344 : bf16
  %x = tensor.extract %p0[%i, %j, %k] : tensor<6x512x4096xbf16>
  %0 = arith.mulf %x, %x : bf16
  %1 = arith.mulf %0, %x : bf16
  %2 = arith.mulf %1, %cubic : bf16
  %3 = arith.addf %x, %2 : bf16
  %4 = arith.mulf %3, %root : bf16
  %5 = math.tanh %4 : bf16
  %6 = arith.addf %5, %one : bf16
  %7 = arith.mulf %6, %half : bf16
  %8 = arith.mulf %x, %7 : bf16
  func.return %8 : bf16
}

// CHECK:      func.func @gelu(%input: tensor<12582912xbf16>, %output: tensor<12582912xbf16>) -> tensor<12582912xbf16>
// CHECK-SAME: xla.logical_type = (tensor<6x512x4096xbf16>, tensor<6x512x4096xbf16>) -> tensor<6x512x4096xbf16>
// CHECK:      scf.for %step = %c0 to %c48 step %c1
// CHECK-NEXT:   scf.for %lane = %c0 to %c16384 step %c1
// CHECK-NEXT:     [[O:%[0-9]+]] = xla.apply_indexing #xla.indexing_map<"(tile)[step, lane] -> (tile * 786432 + step * 16384 + lane), domain: tile in [0, 15], step in [0, 47], lane in [0, 16383]">(%tile)[%step, %lane]
// CHECK-NEXT:     %x = tensor.extract %input[[[O]]] : tensor<12582912xbf16>
// CHECK-COUNT-8:  arith
// CHECK:          tensor.insert %{{.*}} into %{{.*}}[[[O]]] : tensor<12582912xbf16>
// CHECK-NOT:      xla.apply_indexing
// CHECK:          } {xla.lane}

// -----

// Places and elements of updates are read at the number of the update, one more variable of their offsets.

func.func @joined(%p0: tensor<4x8xi32>, %p1: tensor<4x6x1xi32>, %r0: tensor<4x8xi32>) -> tensor<4x8xi32> attributes {xla.entry} {
  %tile = xla.tile_id [0, 3]
  %one = arith.constant 1 : i32
  %c0 = arith.constant 0 : index
  %0 = xla.loop (%tile)[%step, %lane] -> (%i, %j) in #xla.indexing_map<"(tile)[step, lane] -> (tile, lane), domain: tile in [0, 3], step in [0, 0], lane in [0, 7]"> lanes 1 iter_args(%t = %r0) -> (tensor<4x8xi32>) {
    %x = tensor.extract %p0[%i, %j] : tensor<4x8xi32>
    %y = xla.join_at along 0 updates 6 init(%x : i32) {
    ^bb0(%k: index):
      %n = tensor.extract %p1[%i, %k, %c0] : tensor<4x6x1xi32>
      xla.yield %n : i32
    } of {
    ^bb0(%l: index):
      xla.yield %one : i32
    } by {
    ^bb0(%a: i32, %b: i32):
      %c = arith.addi %a, %b : i32
      xla.yield %c : i32
    } : i32
    %1 = tensor.insert %y into %t[%i, %j] : tensor<4x8xi32>
    xla.yield %1 : tensor<4x8xi32>
  }
  func.return %0 : tensor<4x8xi32>
}

// CHECK:      func.func @joined(%p0: tensor<32xi32>, %p1: tensor<24xi32>, %r0: tensor<32xi32>)
// CHECK:          xla.join_at along 0 updates 6 init(%{{.*}} : i32) {
// CHECK-NEXT:     ^bb0(%k: index):
// CHECK-NEXT:       [[O:%[0-9]+]] = xla.apply_indexing #xla.indexing_map<"(tile)[step, lane, k] -> (tile * 6 + k)
// CHECK-NEXT:       tensor.extract %p1[[[O]]] : tensor<24xi32>
