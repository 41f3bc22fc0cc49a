// RUN: %opt -p pipeline-dma %s --split-input-file | filecheck %s

// Loads of the next turn are issued before the work of this one: buffers have two copies, turns take them in turn.

func.func @f(%p0: tensor<4096xf32>, %r0: tensor<4096xf32>) attributes {xla.entry, xla.logical_type = (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>} {
  %one = arith.constant 1 : index
  %steps = arith.constant 4 : index
  %zero = arith.constant 0 : index
  %tile = xla.tile_id [0, 15]
  scf.for %step = %zero to %steps step %one {
    %0 = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile * 1024 + step * 256), domain: tile in [0, 15], step in [0, 3]">(%tile, %step)
    %1 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%1 : !tx8.buffer) slot(%p0 : tensor<4096xf32>) offset(%0 : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
    %2 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.CGRATensor_TransOp_V_V_exp dst(%2 : !tx8.buffer) src(%1 : !tx8.buffer) n(64) fp32
    tx8.WDMA_store slot(%r0 : tensor<4096xf32>) offset(%0 : index) src(%2 : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  func.return
}

// CHECK:      %[[IN:.*]] = "spm.alloc"() <{size = 256 : i64, copies = {{[2-9]}} : i64}>
// CHECK:      %[[OUT:.*]] = "spm.alloc"() <{size = 256 : i64, copies = {{[2-9]}} : i64}>
// CHECK:      %[[FIRST:.*]] = "spm.turn"(%[[IN]], %{{.*}})
// CHECK:      tx8.RDMA_load dst(%[[FIRST]] : !tx8.buffer)
// CHECK:      scf.for %[[STEP:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:        %[[NEXT:.*]] = arith.addi %[[STEP]], %{{.*}}
// CHECK:        scf.if
// CHECK:          %[[AHEAD:.*]] = "spm.turn"(%[[IN]], %[[NEXT]])
// CHECK:          tx8.RDMA_load dst(%[[AHEAD]] : !tx8.buffer)
// CHECK:        }
// CHECK-DAG:    %[[MINE:.*]] = "spm.turn"(%[[IN]], %[[STEP]])
// CHECK-DAG:    %[[RESULT:.*]] = "spm.turn"(%[[OUT]], %[[STEP]])
// CHECK:        tx8.CGRATensor_TransOp_V_V_exp dst(%[[RESULT]] : !tx8.buffer) src(%[[MINE]] : !tx8.buffer)
// CHECK:        tx8.WDMA_store {{.*}} src(%[[RESULT]] : !tx8.buffer)

// -----

// A single turn has nothing to overlap with.

func.func @once(%p0: tensor<64xf32>, %r0: tensor<64xf32>) attributes {xla.entry, xla.logical_type = (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>} {
  %zero = arith.constant 0 : index
  %1 = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%1 : !tx8.buffer) slot(%p0 : tensor<64xf32>) offset(%zero : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  tx8.WDMA_store slot(%r0 : tensor<64xf32>) offset(%zero : index) src(%1 : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  func.return
}

// CHECK:      func.func @once(
// CHECK:        "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}>
// CHECK-NOT:  spm.turn
// CHECK-NOT:  scf.
// CHECK:      func.return
