// RUN: %opt %s | %opt | filecheck %s
// RUN: %opt %s --print-op-generic | %opt | filecheck %s

func.func @ops(%p0: tensor<8x8xf32>, %i: index) -> tensor<8x8xf32> {
  %tile = xla.tile_id [0, 15]
  %s = xla.allocate_scratch : tensor<8x8xf32>
  %l = xla.loop (%tile)[%step, %lane] -> (%a, %b) in #xla.indexing_map<"(tile)[step, lane] -> (lane floordiv 8, lane mod 8), domain: tile in [0, 0], step in [0, 0], lane in [0, 63]"> lanes 1 iter_args(%t = %s) -> (tensor<8x8xf32>) {
    %x = xla.pure_call @f(%p0, %a, %b) : (tensor<8x8xf32>, index, index) -> f32
    %y = xla.elementwise "stablehlo.compare"(%x, %x) {comparison_direction = "LT"} : (f32, f32) -> i1
    %n = tensor.insert %x into %t[%a, %b] : tensor<8x8xf32>
    xla.yield %n : tensor<8x8xf32>
  }
  %z = xla.sync_tiles %l : tensor<8x8xf32> -> tensor<8x8xf32>
  %j, %k = xla.apply_indexing #xla.indexing_map<"(d0)[s0] -> (d0 + s0, d0 * 2), domain: d0 in [0, 7], s0 in [0, 7]">(%i)[%i]
  %c = xla.in_domain #xla.indexing_map<"(d0) -> (), domain: d0 in [0, 3]">(%i)
  func.return %z : tensor<8x8xf32>
}
func.func @reduce(%p0: tensor<8xf32>, %init: f32) -> f32 {
  %s = xla.reduce outer lanes 8 init(%init : f32) {
  ^bb0(%lane: index):
    %x = tensor.extract %p0[%lane] : tensor<8xf32>
    xla.yield %x : f32
  } by {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    xla.yield %m : f32
  } : f32
  func.return %s : f32
}
func.func @reduce_lanes(%x: f32, %init: f32) -> f32 {
  %s = xla.reduce_lanes over [0, 1] of (%x : f32) init (%init : f32) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    xla.yield %m : f32
  } : f32
  func.return %s : f32
}
func.func @scan_lanes(%x: f32, %init: f32) -> f32 {
  %s = xla.scan_lanes over [1] of (%x : f32) init (%init : f32) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    xla.yield %m : f32
  } : f32
  func.return %s : f32
}
func.func @sort_lanes(%x: f32, %y: f32, %odd: index) -> f32 {
  %a, %b = xla.sort_lanes along 1 of (%x, %y : f32, f32) : f32, f32
  %c = xla.sort_lanes bitonic along 0 of (%a : f32) descending (%odd) : f32
  func.return %c : f32
}
func.func @join_at(%p1: tensor<8xi32>, %p2: tensor<8xf32>, %x: f32) -> f32 {
  %s = xla.join_at along 1 updates 8 init(%x : f32) {
  ^bb0(%k: index):
    %i = tensor.extract %p1[%k] : tensor<8xi32>
    xla.yield %i : i32
  } of {
  ^bb0(%l: index):
    %u = tensor.extract %p2[%l] : tensor<8xf32>
    xla.yield %u : f32
  } by {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    xla.yield %m : f32
  } : f32
  func.return %s : f32
}
func.func private @f(%p0: tensor<8x8xf32>, %i: index, %j: index) -> f32 {
  %0 = tensor.extract %p0[%i, %j] : tensor<8x8xf32>
  func.return %0 : f32
}

// CHECK:      %tile = xla.tile_id [0, 15]
// CHECK-NEXT: %s = xla.allocate_scratch : tensor<8x8xf32>
// CHECK-NEXT: %l = xla.loop (%tile)[%step, %lane] -> (%a, %b) in #xla.indexing_map<"(tile)[step, lane] -> (lane floordiv 8, lane mod 8), domain: tile in [0, 0], step in [0, 0], lane in [0, 63]"> lanes 1 iter_args(%t = %s) -> (tensor<8x8xf32>) {
// CHECK-NEXT:   %x = xla.pure_call @f(%p0, %a, %b) : (tensor<8x8xf32>, index, index) -> f32
// CHECK-NEXT:   %y = xla.elementwise "stablehlo.compare"(%x, %x) {comparison_direction = "LT"} : (f32, f32) -> i1
// CHECK-NEXT:   %n = tensor.insert %x into %t[%a, %b] : tensor<8x8xf32>
// CHECK-NEXT:   xla.yield %n : tensor<8x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %z = xla.sync_tiles %l : tensor<8x8xf32> -> tensor<8x8xf32>
// CHECK-NEXT: %j, %k = xla.apply_indexing #xla.indexing_map<"(d0)[s0] -> (d0 + s0, d0 * 2), domain: d0 in [0, 7], s0 in [0, 7]">(%i)[%i]
// CHECK-NEXT: %c = xla.in_domain #xla.indexing_map<"(d0) -> (), domain: d0 in [0, 3]">(%i)

// CHECK:      %s = xla.reduce outer lanes 8 init(%init : f32) {
// CHECK-NEXT: ^bb0(%lane: index):
// CHECK-NEXT:   %x = tensor.extract %p0[%lane] : tensor<8xf32>
// CHECK-NEXT:   xla.yield %x : f32
// CHECK-NEXT: } by {
// CHECK-NEXT: ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:   %m = arith.maximumf %a, %b : f32
// CHECK-NEXT:   xla.yield %m : f32
// CHECK-NEXT: } : f32

// CHECK:      %s = xla.reduce_lanes over [0, 1] of(%x : f32) init(%init : f32) {
// CHECK-NEXT: ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:   %m = arith.addf %a, %b : f32
// CHECK-NEXT:   xla.yield %m : f32
// CHECK-NEXT: } : f32

// CHECK:      %s = xla.scan_lanes over [1] of(%x : f32) init(%init : f32) {
// CHECK-NEXT: ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:   %m = arith.addf %a, %b : f32

// CHECK:      %a, %b = xla.sort_lanes along 1 of(%x, %y : f32, f32) : f32, f32
// CHECK-NEXT: %c = xla.sort_lanes bitonic along 0 of(%a : f32) descending(%odd) : f32

// CHECK:      %s = xla.join_at along 1 updates 8 init(%x : f32) {
// CHECK-NEXT: ^bb0(%k: index):
// CHECK-NEXT:   %i = tensor.extract %p1[%k] : tensor<8xi32>
// CHECK-NEXT:   xla.yield %i : i32
// CHECK-NEXT: } of {
// CHECK:      } by {
// CHECK-NEXT: ^bb0(%a: f32, %b: f32):
