// RUN: %opt -p insert-waits %s --split-input-file | filecheck %s

// Engines keep the order of ranges by themselves; at the end a kernel waits for what is queued and for the other tiles.

func.func @f(%p0: tensor<64xf32>, %r0: tensor<64xf32>) attributes {xla.entry, xla.logical_type = (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>} {
  %zero = arith.constant 0 : index
  %1 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%1 : !tx8.buffer) slot(%p0 : tensor<64xf32>) offset(%zero : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  tx8.CGRATensor_TransOp_V_V_exp dst(%1 : !tx8.buffer) src(%1 : !tx8.buffer) n(64) fp32
  tx8.WDMA_store slot(%r0 : tensor<64xf32>) offset(%zero : index) src(%1 : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  func.return
}

// CHECK:      func.func @f(
// CHECK:        tx8.RDMA_load
// CHECK-NEXT:   tx8.CGRATensor_TransOp_V_V_exp
// CHECK-NEXT:   tx8.WDMA_store
// CHECK-NEXT:   tx8.KC_wait
// CHECK-NEXT:   tx8.KC_barrier
// CHECK-NEXT:   func.return

// -----

// The kernel core is not range-checked: it waits for the engine that writes what it reads.

func.func @g(%p0: tensor<64xi32>, %r0: tensor<64xi32>) attributes {xla.entry, xla.logical_type = (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>} {
  %zero = arith.constant 0 : index
  %1 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%1 : !tx8.buffer) slot(%p0 : tensor<64xi32>) offset(%zero : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) int32
  tx8.KC_VV_mul dst(%1 : !tx8.buffer) a(%1 : !tx8.buffer) b(%1 : !tx8.buffer) n(64) int32
  tx8.WDMA_store slot(%r0 : tensor<64xi32>) offset(%zero : index) src(%1 : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) int32
  func.return
}

// CHECK:      func.func @g(
// CHECK:        tx8.RDMA_load
// CHECK-NEXT:   tx8.KC_wait
// CHECK-NEXT:   tx8.KC_VV_mul
// CHECK-NEXT:   tx8.WDMA_store

// -----

// What was loaded in front of a loop is waited for there, however often the loop turns.

func.func @h(%p0: tensor<64xi32>, %r0: tensor<64xi32>) attributes {xla.entry, xla.logical_type = (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %tile = xla.tile_id [0, 15]
  %1 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%1 : !tx8.buffer) slot(%p0 : tensor<64xi32>) offset(%zero : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) int32
  scf.for %k = %zero to %tile step %one {
    tx8.KC_VV_mul dst(%1 : !tx8.buffer) a(%1 : !tx8.buffer) b(%1 : !tx8.buffer) n(64) int32
  }
  tx8.WDMA_store slot(%r0 : tensor<64xi32>) offset(%zero : index) src(%1 : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) int32
  func.return
}

// CHECK:      func.func @h(
// CHECK:        tx8.RDMA_load
// CHECK-NEXT:   tx8.KC_wait
// CHECK-NEXT:   scf.for
// CHECK-NEXT:     tx8.KC_VV_mul
