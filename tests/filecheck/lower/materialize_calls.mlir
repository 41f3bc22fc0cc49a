// RUN: %opt -p materialize-calls %s | filecheck %s

// A function called twice fills a scratch tensor in a loop of its own, with a barrier before the readers.

func.func @f(%p0: tensor<8x8xf32>, %r0: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {xla.entry} {
  %tile = xla.tile_id [0, 15]
  %0 = xla.loop (%tile)[%step, %l0, %l1] -> (%i, %j) in #xla.indexing_map<"(tile)[step, l0, l1] -> (l0, l1), domain: tile in [0, 0], step in [0, 0], l0 in [0, 7], l1 in [0, 7]"> lanes 2 iter_args(%t = %r0) -> (tensor<8x8xf32>) {
    %1 = xla.pure_call @log(%p0, %i, %j) : (tensor<8x8xf32>, index, index) -> f32
    %2 = xla.pure_call @log(%p0, %j, %i) : (tensor<8x8xf32>, index, index) -> f32
    %3 = arith.addf %1, %2 : f32
    %4 = tensor.insert %3 into %t[%i, %j] : tensor<8x8xf32>
    xla.yield %4 : tensor<8x8xf32>
  }
  func.return %0 : tensor<8x8xf32>
}
func.func private @log(%p0: tensor<8x8xf32>, %i: index, %j: index) -> f32 attributes {xla.split = #xla.indexing_map<"(tile)[step, lane] -> (lane floordiv 8, lane mod 8), domain: tile in [0, 0], step in [0, 0], lane in [0, 63]">, xla.num_lanes = 1 : i64, xla.tensors = [tensor<8x8xf32>]} {
  %0 = tensor.extract %p0[%i, %j] : tensor<8x8xf32>
  %1 = math.log %0 : f32
  func.return %1 : f32
}

// CHECK:      [[S:%[0-9]+]] = xla.allocate_scratch : tensor<8x8xf32>
// CHECK-NEXT: [[L:%[0-9]+]] = xla.loop (%tile)[%step, %lane] -> ([[I:%i]], [[J:%j]])
// CHECK-SAME:   lanes 1 iter_args([[T:%[0-9]+]] = [[S]])
// CHECK:        math.log
// CHECK-NEXT:   tensor.insert %{{.*}} into [[T]][[[I]], [[J]]]
// CHECK:      [[B:%[0-9]+]] = xla.sync_tiles [[L]] : tensor<8x8xf32> -> tensor<8x8xf32>
// CHECK:      tensor.extract [[B]][%i_1, %j_1]
// CHECK-NEXT: tensor.extract [[B]][%j_1, %i_1]
// CHECK-NOT:  func.func private
