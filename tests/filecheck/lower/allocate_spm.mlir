// RUN: %opt -p allocate-spm %s --split-input-file | filecheck %s

// Buffers get addresses from the start of what may be allocated; one whose last reader is done gives its place to another.

func.func @f(%p0: tensor<64xf32>, %r0: tensor<64xf32>) attributes {xla.entry, xla.logical_type = (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>} {
  %zero = arith.constant 0 : index
  %1 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%1 : !tx8.buffer) slot(%p0 : tensor<64xf32>) offset(%zero : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  %2 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.CGRATensor_TransOp_V_V_exp dst(%2 : !tx8.buffer) src(%1 : !tx8.buffer) n(64) fp32
  %3 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.CGRATensor_TransOp_V_V_exp dst(%3 : !tx8.buffer) src(%2 : !tx8.buffer) n(64) fp32
  tx8.WDMA_store slot(%r0 : tensor<64xf32>) offset(%zero : index) src(%3 : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  func.return
}

// CHECK:      func.func @f({{.*}} buffers = [
// CHECK-NOT:    spm.alloc
// CHECK:        %[[A:.*]] = arith.constant 65536 : index
// CHECK:        tx8.RDMA_load dst(%[[A]] : index)
// CHECK:        tx8.CGRATensor_TransOp_V_V_exp dst(%[[B:.*]] : index) src(%{{.*}} : index)
// CHECK:        tx8.CGRATensor_TransOp_V_V_exp dst(%[[C:.*]] : index) src(%{{.*}} : index)
// CHECK:        tx8.WDMA_store

// -----

// A buffer of two copies: the address depends on the turn.

func.func @turns(%p0: tensor<256xf32>, %r0: tensor<256xf32>) attributes {xla.entry, xla.logical_type = (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>} {
  %one = arith.constant 1 : index
  %steps = arith.constant 4 : index
  %zero = arith.constant 0 : index
  %1 = "spm.alloc"() <{size = 256 : i64, copies = 2 : i64}> : () -> !tx8.buffer
  scf.for %step = %zero to %steps step %one {
    %2 = "spm.turn"(%1, %step) : (!tx8.buffer, index) -> !tx8.buffer
    tx8.RDMA_load dst(%2 : !tx8.buffer) slot(%p0 : tensor<256xf32>) offset(%zero : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
    tx8.WDMA_store slot(%r0 : tensor<256xf32>) offset(%zero : index) src(%2 : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  func.return
}

// CHECK:      func.func @turns({{.*}} copies = 2 : i64
// CHECK:        scf.for %[[STEP:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:     %[[AT:.*]] = xla.apply_indexing #xla.indexing_map<"(turn) -> (turn mod 2 * 256 + {{[0-9]+}})
// CHECK-NEXT:     tx8.RDMA_load dst(%[[AT]] : index)
// CHECK-NEXT:     tx8.WDMA_store {{.*}} src(%[[AT]] : index)
// CHECK-NOT:  spm.

// -----

// A small buffer of a group's steps has a place of its own, although others are done with theirs.

func.func @statistics(%p0: tensor<256xf32>, %r0: tensor<256xf32>) attributes {xla.entry, xla.logical_type = (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>} {
  %one = arith.constant 1 : index
  %steps = arith.constant 4 : index
  %zero = arith.constant 0 : index
  scf.for %step = %zero to %steps step %one {
    %1 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %2 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %3 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%1 : !tx8.buffer) slot(%p0 : tensor<256xf32>) offset(%zero : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
    tx8.CGRATensor_TransOp_V_V_exp dst(%2 : !tx8.buffer) src(%1 : !tx8.buffer) n(64) fp32
    tx8.CGRATensor_TransOp_V_V_exp dst(%3 : !tx8.buffer) src(%2 : !tx8.buffer) n(64) fp32
  } {xla.row_steps}
  func.return
}

// CHECK-LABEL: @statistics
// CHECK-DAG:    arith.constant 65536 : index
// CHECK-DAG:    arith.constant 65792 : index
// CHECK-DAG:    arith.constant 66048 : index
