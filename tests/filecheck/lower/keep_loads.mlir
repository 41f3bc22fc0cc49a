// RUN: %opt -p keep-loads --split-input-file %s | filecheck %s

// A tile's share is loaded by the first loop, in four steps; the second one, in two, finds it where that has left it.

func.func @twice(%p0: tensor<4096xf32>, %r0: tensor<16xf32>, %r1: tensor<4096xf32>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %four = arith.constant 4 : index
  scf.for %k = %c0 to %c4 step %c1 {
    %a = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (tile * 256 + k * 64), domain: tile in [0, 15], k in [0, 3]">(%tile, %k)
    %bytes = arith.muli %o, %four : index
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xf32>) offset(%bytes : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
    tx8.WDMA_store slot(%r0 : tensor<16xf32>) offset(%bytes : index) src(%a : !tx8.buffer) count(1) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  %s = xla.sync_tiles %r0 : tensor<16xf32> -> tensor<16xf32>
  scf.for %k = %c0 to %c2 step %c1 {
    %a = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (tile * 256 + k * 128), domain: tile in [0, 15], k in [0, 1]">(%tile, %k)
    %bytes = arith.muli %o, %four : index
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xf32>) offset(%bytes : index) count(64) s1(64) n1(2) s2(0) n2(1) s3(0) n3(1) fp32
    tx8.WDMA_store slot(%r1 : tensor<4096xf32>) offset(%bytes : index) src(%a : !tx8.buffer) count(128) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  func.return
}

// CHECK-LABEL: func.func @twice
// CHECK:         [[KEPT:%[a-z0-9_]+]] = "spm.alloc"() <{size = 1024 : i64, copies = 1 : i64}> {kept}
// CHECK-NEXT:    scf.for
// CHECK:           [[PART:%[a-z0-9_]+]] = "spm.offset"([[KEPT]]
// CHECK-NEXT:      tx8.RDMA_load dst([[PART]]
// CHECK:         xla.sync_tiles
// CHECK:         scf.for
// CHECK:           (tile, k) -> (k * 128)
// CHECK-NOT:       RDMA_load
// CHECK:           [[AGAIN:%[a-z0-9_]+]] = "spm.offset"([[KEPT]]
// CHECK:           tx8.WDMA_store {{.*}}src([[AGAIN]]

// -----

// A first loop that does not load all of what the second one reads keeps nothing.

func.func @part(%p0: tensor<4096xf32>, %r0: tensor<16xf32>, %r1: tensor<4096xf32>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %four = arith.constant 4 : index
  scf.for %k = %c0 to %c3 step %c1 {
    %a = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (tile * 256 + k * 64), domain: tile in [0, 15], k in [0, 2]">(%tile, %k)
    %bytes = arith.muli %o, %four : index
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xf32>) offset(%bytes : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
    tx8.WDMA_store slot(%r0 : tensor<16xf32>) offset(%bytes : index) src(%a : !tx8.buffer) count(1) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  %s = xla.sync_tiles %r0 : tensor<16xf32> -> tensor<16xf32>
  scf.for %k = %c0 to %c4 step %c1 {
    %a = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (tile * 256 + k * 64), domain: tile in [0, 15], k in [0, 3]">(%tile, %k)
    %bytes = arith.muli %o, %four : index
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xf32>) offset(%bytes : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
    tx8.WDMA_store slot(%r1 : tensor<4096xf32>) offset(%bytes : index) src(%a : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  func.return
}

// CHECK-LABEL: func.func @part
// CHECK-NOT:     kept
// CHECK:         RDMA_load
// CHECK:         xla.sync_tiles
// CHECK:         RDMA_load
