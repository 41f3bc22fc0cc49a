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

// -----

// Where the kernel core computes with what a loop loads a turn ahead and stores, it waits for the transfers of the turn before in
// front of the next ones, so that those go on while it computes.

func.func @turns(%p0: tensor<512xi32>, %r0: tensor<512xi32>) attributes {xla.entry, xla.logical_type = (tensor<512xi32>, tensor<512xi32>) -> tensor<512xi32>} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  %bytes = arith.constant 256 : index
  %1 = "spm.alloc"() <{size = 256 : i64, copies = 2 : i64}> : () -> !tx8.buffer
  %2 = "spm.alloc"() <{size = 256 : i64, copies = 2 : i64}> : () -> !tx8.buffer
  %first = "spm.turn"(%1, %zero) : (!tx8.buffer, index) -> !tx8.buffer
  tx8.RDMA_load dst(%first : !tx8.buffer) slot(%p0 : tensor<512xi32>) offset(%zero : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) int32
  scf.for %k = %zero to %eight step %one {
    %next = arith.addi %k, %one : index
    %more = arith.cmpi slt, %next, %eight : index
    scf.if %more {
      %ahead = "spm.turn"(%1, %next) : (!tx8.buffer, index) -> !tx8.buffer
      %from = arith.muli %next, %bytes : index
      tx8.RDMA_load dst(%ahead : !tx8.buffer) slot(%p0 : tensor<512xi32>) offset(%from : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) int32
    }
    %read = "spm.turn"(%1, %k) : (!tx8.buffer, index) -> !tx8.buffer
    %made = "spm.turn"(%2, %k) : (!tx8.buffer, index) -> !tx8.buffer
    tx8.KC_VV_mul dst(%made : !tx8.buffer) a(%read : !tx8.buffer) b(%read : !tx8.buffer) n(64) int32
    %to = arith.muli %k, %bytes : index
    tx8.WDMA_store slot(%r0 : tensor<512xi32>) offset(%to : index) src(%made : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) int32
  }
  func.return
}

// CHECK:      func.func @turns(
// CHECK:        tx8.RDMA_load
// CHECK:        scf.for
// CHECK:          tx8.KC_wait engines(4)
// CHECK-NEXT:     scf.if
// CHECK:            tx8.RDMA_load
// CHECK-NOT:      tx8.KC_wait
// CHECK:          tx8.KC_VV_mul
// CHECK:          tx8.KC_wait engines(8)
// CHECK-NEXT:     tx8.WDMA_store
// CHECK-NEXT:   }

// -----

// A branch in which the core itself computes may not be taken: it waits where it writes what is stored, in each turn.

func.func @branch(%n: index, %r0: tensor<512xi32>) attributes {xla.entry, xla.logical_type = (index, tensor<512xi32>) -> tensor<512xi32>} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  %bytes = arith.constant 256 : index
  %1 = "spm.alloc"() <{size = 256 : i64, copies = 2 : i64}> : () -> !tx8.buffer
  scf.for %k = %zero to %eight step %one {
    %made = "spm.turn"(%1, %k) : (!tx8.buffer, index) -> !tx8.buffer
    %is = arith.cmpi slt, %k, %n : index
    scf.if %is {
      tx8.KC_V_iota dst(%made : !tx8.buffer) n(64) start(0) step(1) div(1) mod(64) int32
      %to = arith.muli %k, %bytes : index
      tx8.WDMA_store slot(%r0 : tensor<512xi32>) offset(%to : index) src(%made : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) int32
    }
  }
  func.return
}

// CHECK:      func.func @branch(
// CHECK:          scf.if
// CHECK-NEXT:       tx8.KC_wait engines(8)
// CHECK-NEXT:       tx8.KC_V_iota
// CHECK-NOT:        tx8.KC_wait
// CHECK:            tx8.WDMA_store
