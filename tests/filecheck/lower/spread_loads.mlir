// RUN: %opt -p spread-loads --split-input-file %s | filecheck %s

// Of what all tiles load alike those of the first and the last mesh row load an eighth each, in front of the loop and of all else, and
// send it to the others.

func.func @weights(%p0: tensor<65536xbf16>, %p1: tensor<65536xbf16>, %r0: tensor<65536xbf16>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  scf.for %step = %c0 to %c4 step %c1 {
    %o = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile * 8192 + step * 2048), domain: tile in [0, 15], step in [0, 3]">(%tile, %step)
    %a = "spm.alloc"() <{size = 2048 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<65536xbf16>) offset(%o : index) count(1024) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    %z = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (0), domain: tile in [0, 15], step in [0, 3]">(%tile, %step)
    %w = "spm.alloc"() <{size = 131072 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%w : !tx8.buffer) slot(%p1 : tensor<65536xbf16>) offset(%z : index) count(64) s1(256) n1(256) s2(64) n2(4) s3(0) n3(1) bf16
    tx8.CGRATensor_ArithOp_V_VV_add dst(%a : !tx8.buffer) a(%a : !tx8.buffer) b(%w : !tx8.buffer) n(1024) bf16
    tx8.WDMA_store slot(%r0 : tensor<65536xbf16>) offset(%o : index) src(%a : !tx8.buffer) count(1024) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @weights
// CHECK:         [[W:%[a-z0-9_]+]] = "spm.alloc"() <{size = 131072
// CHECK:         [[T:%[a-z0-9_]+]] = xla.apply_indexing {{.*}}((tile - tile floordiv 12 * 8) * 16384)
// CHECK-NEXT:    [[P:%[a-z0-9_]+]] = "spm.offset"([[W]], [[T]])
// CHECK:         xla.apply_indexing {{.*}}(tile - tile floordiv 12 * 8 + (tile - tile floordiv 12 * 8) floordiv 4 * 8 - tile)
// CHECK:         scf.if
// CHECK:         tx8.RDMA_load dst([[P]] {{.*}}slot(%p1 {{.*}}count(64) s1(256) n1(128) s2(64) n2(1)
// CHECK:         tx8.TDMA_gatherScatter {{.*}}src([[P]] {{.*}}run_bytes(16)
// CHECK:         tx8.KC_wait
// CHECK:         tx8.DTE_multicast dst([[P]] : !tx8.buffer) src([[P]] : !tx8.buffer) n(8192)
// CHECK:         tx8.KC_wait
// CHECK-NEXT:    tx8.KC_barrier
// CHECK:         scf.for
// CHECK-NOT:       slot(%p1
// CHECK:           tx8.RDMA_load {{.*}}slot(%p0
// CHECK-NOT:       slot(%p1
// CHECK:           add dst({{.*}}b([[W]]

// -----

// Of little, the loads of all tiles are there before parts would be; two tiles read it sooner by themselves; a tensor that the kernel
// writes is not the same for all.

func.func @apart(%p0: tensor<2048xbf16>, %p1: tensor<65536xbf16>, %r0: tensor<65536xbf16>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %a = "spm.alloc"() <{size = 4096 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<2048xbf16>) offset(%c0 : index) count(2048) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  %b = "spm.alloc"() <{size = 131072 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  tx8.RDMA_load dst(%b : !tx8.buffer) slot(%r0 : tensor<65536xbf16>) offset(%c0 : index) count(65536) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  %n = "vec.extent"(%tile) <{map = #xla.indexing_map<"(tile) -> (2 - tile), domain: tile in [0, 15]">, kind = "min", lower = 0 : i64, upper = 1 : i64}> : (index) -> index
  %is = arith.cmpi sgt, %n, %c0 : index
  scf.if %is {
    %c = "spm.alloc"() <{size = 131072 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%c : !tx8.buffer) slot(%p1 : tensor<65536xbf16>) offset(%c0 : index) count(65536) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.WDMA_store slot(%r0 : tensor<65536xbf16>) offset(%c0 : index) src(%c : !tx8.buffer) count(1024) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @apart
// CHECK-NOT:     DTE_multicast
// CHECK:         func.return
