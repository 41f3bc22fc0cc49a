// RUN: %opt -p select-instructions %s --split-input-file | filecheck %s

// Loads and stores become DMA between the scratchpad and a slot, in bytes; element math becomes instructions of CT.

func.func @f(%p0: tensor<4096xf32>, %p1: tensor<4096xf32>, %r0: tensor<4096xf32>) attributes {xla.entry, xla.logical_type = (tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>} {
  %tile = xla.tile_id [0, 15]
  "vec.box"() <{shape = array<i64: 256>, ragged = array<i64>}> ({
    %0 = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile * 256), domain: tile in [0, 15]">(%tile)
    %1 = "vec.load"(%p0, %0) <{strides = array<i64: 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<4096xf32>, index) -> vector<256xf32>
    %2 = math.exp %1 : vector<256xf32>
    %3 = "vec.load"(%p1, %0) <{strides = array<i64: 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<4096xf32>, index) -> vector<256xf32>
    %4 = arith.mulf %2, %3 : vector<256xf32>
    "vec.store"(%4, %r0, %0) <{strides = array<i64: 1>}> : (vector<256xf32>, tensor<4096xf32>, index) -> ()
  }) : () -> ()
  func.return
}

// CHECK:      %[[O:.*]] = xla.apply_indexing
// CHECK:      %[[A:.*]] = "spm.alloc"() <{size = 1024 : i64, copies = 1 : i64}>
// CHECK:      arith.muli %[[O]]
// CHECK:      tx8.RDMA_load dst(%[[A]] : !tx8.buffer) slot(%p0 : tensor<4096xf32>) {{.*}} count(256) {{.*}} fp32
// CHECK:      %[[E:.*]] = "spm.alloc"()
// CHECK:      tx8.CGRATensor_TransOp_V_V_exp dst(%[[E]] : !tx8.buffer) src(%[[A]] : !tx8.buffer) n(256) fp32
// CHECK:      tx8.RDMA_load dst(%[[B:.*]] : !tx8.buffer) slot(%p1 : tensor<4096xf32>)
// CHECK:      tx8.CGRATensor_ArithOp_V_VV_mul dst(%[[P:.*]] : !tx8.buffer) a(%[[E]] : !tx8.buffer) b(%[[B]] : !tx8.buffer) n(256) fp32
// CHECK:      tx8.WDMA_store slot(%r0 : tensor<4096xf32>) {{.*}} src(%[[P]] : !tx8.buffer) count(256) {{.*}} fp32
// CHECK-NOT:  vec.

// -----

// Integers go to the kernel core, one instruction per vector.

func.func @g(%p0: tensor<64xi32>, %r0: tensor<64xi32>) attributes {xla.entry, xla.logical_type = (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>} {
  %zero = arith.constant 0 : index
  "vec.box"() <{shape = array<i64: 64>, ragged = array<i64>}> ({
    %1 = "vec.load"(%p0, %zero) <{strides = array<i64: 1>, clipped = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<64xi32>, index) -> vector<64xi32>
    %2 = arith.muli %1, %1 : vector<64xi32>
    "vec.store"(%2, %r0, %zero) <{strides = array<i64: 1>}> : (vector<64xi32>, tensor<64xi32>, index) -> ()
  }) : () -> ()
  func.return
}

// CHECK:      func.func @g(
// CHECK:      tx8.RDMA_load dst(%[[A:.*]] : !tx8.buffer) slot(%p0
// CHECK:      tx8.KC_VV_mul {{.*}} a(%[[A]] : !tx8.buffer) b(%[[A]] : !tx8.buffer) n(64) int32
// CHECK:      tx8.WDMA_store slot(%r0
