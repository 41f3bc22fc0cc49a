// RUN: %opt -p vectorize %s --split-input-file | filecheck %s

// The loop over lanes becomes one box: what is read or written along it is a vector, at the offset of its first lane.

func.func @f(%p0: tensor<4096xf32>, %r0: tensor<4096xf32>) -> tensor<4096xf32> attributes {xla.entry, xla.logical_type = (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>} {
  %lanes = arith.constant 64 : index
  %one = arith.constant 1 : index
  %steps = arith.constant 4 : index
  %zero = arith.constant 0 : index
  %tile = xla.tile_id [0, 15]
  %0 = scf.for %step = %zero to %steps step %one iter_args(%t = %r0) -> (tensor<4096xf32>) {
    %1 = scf.for %lane = %zero to %lanes step %one iter_args(%u = %t) -> (tensor<4096xf32>) {
      %2 = xla.apply_indexing #xla.indexing_map<"(tile)[step, lane] -> (tile * 256 + step * 64 + lane), domain: tile in [0, 15], step in [0, 3], lane in [0, 63]">(%tile)[%step, %lane]
      %3 = tensor.extract %p0[%2] : tensor<4096xf32>
      %4 = math.exp %3 : f32
      %5 = tensor.insert %4 into %u[%2] : tensor<4096xf32>
      scf.yield %5 : tensor<4096xf32>
    } {xla.lane}
    scf.yield %1 : tensor<4096xf32>
  }
  func.return %0 : tensor<4096xf32>
}

// CHECK:      func.func @f(%p0: tensor<4096xf32>, %r0: tensor<4096xf32>) attributes
// CHECK:      scf.for %[[STEP:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:   "vec.box"() <{shape = array<i64: 64>, ragged = array<i64>}> ({
// CHECK:          %[[O:.*]] = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile * 256 + step * 64), domain: tile in [0, 15], step in [0, 3]">(%{{.*}}, %[[STEP]])
// CHECK:          %[[X:.*]] = "vec.load"(%p0, %[[O]]) <{strides = array<i64: 1>
// CHECK:          %[[E:.*]] = math.exp %[[X]] : vector<64xf32>
// CHECK:          "vec.store"(%[[E]], %r0, %{{.*}}) <{strides = array<i64: 1>}> : (vector<64xf32>
// CHECK-NOT:  tensor.
// CHECK:      func.return

// -----

// Two loops over lanes are a box of two dimensions; what does not depend on one of them has stride 0 along it.

func.func @rows(%p0: tensor<640xf32>, %p1: tensor<10xf32>, %r0: tensor<640xf32>) -> tensor<640xf32> attributes {xla.entry, xla.logical_type = (tensor<640xf32>, tensor<10xf32>, tensor<640xf32>) -> tensor<640xf32>} {
  %ten = arith.constant 10 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %zero = arith.constant 0 : index
  %tile = xla.tile_id [0, 15]
  %0 = scf.for %row = %zero to %four step %one iter_args(%t = %r0) -> (tensor<640xf32>) {
    %1 = scf.for %column = %zero to %ten step %one iter_args(%u = %t) -> (tensor<640xf32>) {
      %2 = xla.apply_indexing #xla.indexing_map<"(tile)[row, column] -> (tile * 40 + row * 10 + column), domain: tile in [0, 15], row in [0, 3], column in [0, 9]">(%tile)[%row, %column]
      %3 = tensor.extract %p0[%2] : tensor<640xf32>
      %4 = tensor.extract %p1[%column] : tensor<10xf32>
      %5 = arith.addf %3, %4 : f32
      %6 = tensor.insert %5 into %u[%2] : tensor<640xf32>
      scf.yield %6 : tensor<640xf32>
    } {xla.lane}
    scf.yield %1 : tensor<640xf32>
  } {xla.lane}
  func.return %0 : tensor<640xf32>
}

// CHECK:      func.func @rows(
// CHECK:        "vec.box"() <{shape = array<i64: 4, 10>
// CHECK-DAG:      %[[X:.*]] = "vec.load"(%p0, %{{.*}}) <{strides = array<i64: 10, 1>
// CHECK-DAG:      %[[B:.*]] = "vec.load"(%p1, %{{.*}}) <{strides = array<i64: {{(0, )?}}1>
// CHECK:          arith.addf
// CHECK:          "vec.store"({{.*}}) <{strides = array<i64: 10, 1>

// -----

// Lanes are sorted in boxes; the direction is that of the step.

func.func @sorted(%p0: tensor<64xf32>, %r0: tensor<64xf32>) -> tensor<64xf32> attributes {xla.entry, xla.logical_type = (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  %tile = xla.tile_id [0, 15]
  %0 = scf.for %step = %zero to %eight step %one iter_args(%t = %r0) -> (tensor<64xf32>) {
    %1 = scf.for %lane = %zero to %eight step %one iter_args(%u = %t) -> (tensor<64xf32>) {
      %2 = xla.apply_indexing #xla.indexing_map<"(tile)[step, lane] -> (step * 8 + lane), domain: tile in [0, 15], step in [0, 7], lane in [0, 7]">(%tile)[%step, %lane]
      %3 = xla.apply_indexing #xla.indexing_map<"(step) -> (step mod 2), domain: step in [0, 7]">(%step)
      %4 = tensor.extract %p0[%2] : tensor<64xf32>
      %5 = xla.sort_lanes along 0 of (%4 : f32) descending (%3) : f32
      %6 = tensor.insert %5 into %u[%2] : tensor<64xf32>
      scf.yield %6 : tensor<64xf32>
    } {xla.lane}
    scf.yield %1 : tensor<64xf32>
  }
  func.return %0 : tensor<64xf32>
}

// CHECK:      func.func @sorted(
// CHECK:          %[[X:.*]] = "vec.load"(%p0
// CHECK:          %[[D:.*]] = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (step mod 2)
// CHECK:          %[[S:.*]] = "vec.sort_lanes"(%[[X]], %[[D]]) <{along = 0 : i64, operandSegmentSizes = array<i32: 1, 1>}> : (vector<8xf32>, index) -> vector<8xf32>
// CHECK:          "vec.store"(%[[S]], %r0

// -----

// Lanes are scanned in boxes, with the combiner as it is.

func.func @scanned(%p0: tensor<64xf32>, %r0: tensor<64xf32>) -> tensor<64xf32> attributes {xla.entry, xla.logical_type = (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>} {
  %start = arith.constant 0.0 : f32
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %all = arith.constant 64 : index
  %tile = xla.tile_id [0, 0]
  %0 = scf.for %lane = %zero to %all step %one iter_args(%t = %r0) -> (tensor<64xf32>) {
    %1 = tensor.extract %p0[%lane] : tensor<64xf32>
    %2 = xla.scan_lanes over [0] of (%1 : f32) init (%start : f32) {
    ^bb0(%a: f32, %b: f32):
      %m = arith.addf %a, %b : f32
      xla.yield %m : f32
    } : f32
    %3 = tensor.insert %2 into %t[%lane] : tensor<64xf32>
    scf.yield %3 : tensor<64xf32>
  } {xla.lane}
  func.return %0 : tensor<64xf32>
}

// CHECK:      func.func @scanned(
// CHECK:          %[[X:.*]] = "vec.load"(%p0
// CHECK:          %[[I:.*]] = "vec.splat"
// CHECK:          %[[S:.*]] = "vec.scan_lanes"(%[[X]], %[[I]]) <{over = array<i64: 0>
// CHECK:            arith.addf %{{.*}} : f32
// CHECK:          "vec.store"(%[[S]], %r0

// -----

// Updates have vectors of their own, in the place of the lanes that they are joined with; places have one column.

func.func @joined(%p0: tensor<96xf32>, %p1: tensor<5xi32>, %p2: tensor<60xf32>, %r0: tensor<96xf32>) -> tensor<96xf32> attributes {xla.entry, xla.logical_type = (tensor<96xf32>, tensor<5xi32>, tensor<60xf32>, tensor<96xf32>) -> tensor<96xf32>} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %places = arith.constant 8 : index
  %columns = arith.constant 12 : index
  %tile = xla.tile_id [0, 0]
  %0 = scf.for %place = %zero to %places step %one iter_args(%t = %r0) -> (tensor<96xf32>) {
    %1 = scf.for %column = %zero to %columns step %one iter_args(%u = %t) -> (tensor<96xf32>) {
      %2 = xla.apply_indexing #xla.indexing_map<"(place, column) -> (place * 12 + column), domain: place in [0, 7], column in [0, 11]">(%place, %column)
      %3 = tensor.extract %p0[%2] : tensor<96xf32>
      %4 = xla.join_at along 0 updates 5 init(%3 : f32) {
      ^bb0(%k: index):
        %5 = tensor.extract %p1[%k] : tensor<5xi32>
        xla.yield %5 : i32
      } of {
      ^bb0(%l: index):
        %6 = xla.apply_indexing #xla.indexing_map<"(update, column) -> (update * 12 + column), domain: update in [0, 4], column in [0, 11]">(%l, %column)
        %7 = tensor.extract %p2[%6] : tensor<60xf32>
        xla.yield %7 : f32
      } by {
      ^bb0(%a: f32, %b: f32):
        %m = arith.mulf %a, %b : f32
        xla.yield %m : f32
      } : f32
      %8 = tensor.insert %4 into %u[%2] : tensor<96xf32>
      scf.yield %8 : tensor<96xf32>
    } {xla.lane}
    scf.yield %1 : tensor<96xf32>
  } {xla.lane}
  func.return %0 : tensor<96xf32>
}

// CHECK:      func.func @joined(
// CHECK:          "vec.box"() <{shape = array<i64: 8, 12>
// CHECK:          %[[X:.*]] = "vec.load"(%p0
// CHECK:          %[[S:.*]] = "vec.join_at"(%[[X]]) <{along = 0 : i64, updates = 5 : i64}> ({
// CHECK:            "vec.load"(%p1, {{.*}} -> vector<5x1xi32>
// CHECK:          }, {
// CHECK:            "vec.load"(%p2, %{{.*}}) <{strides = array<i64: 12, 1>{{.*}} -> vector<5x12xf32>
// CHECK:          }, {
// CHECK:            arith.mulf %{{.*}} : f32
// CHECK:          }) : (vector<8x12xf32>) -> vector<8x12xf32>
// CHECK:          "vec.store"(%[[S]], %r0
