// RUN: %opt -p keep-bands --split-input-file %s | filecheck %s

// A tile stores 4 rows of 16 elements in two turns, and reads them again, with a row above and below: 64 bytes of each neighbour.

func.func @rows(%p0: tensor<1024xf32>, %r0: tensor<1024xf32>) {
  %tile = xla.tile_id [0, 15]
  %t = xla.allocate_scratch : tensor<1024xf32>
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  %four = arith.constant 4 : index
  scf.for %k = %c0 to %c2 step %c1 {
    %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (tile * 64 + k * 32), domain: tile in [0, 15], k in [0, 1]">(%tile, %k)
    %bytes = arith.muli %o, %four : index
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<1024xf32>) offset(%bytes : index) count(32) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
    tx8.WDMA_store slot(%t : tensor<1024xf32>) offset(%bytes : index) src(%a : !tx8.buffer) count(8) s1(16) n1(2) s2(8) n2(2) s3(0) n3(1) fp32
  }
  %s = xla.sync_tiles %t : tensor<1024xf32> -> tensor<1024xf32>
  scf.for %k = %c0 to %c2 step %c1 {
    %a = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = xla.apply_indexing #xla.indexing_map<"(tile, k) -> (tile * 64 + k * 32 - (tile + 15) floordiv 16 * 16 - (tile + 1) floordiv 16 * 16), domain: tile in [0, 15], k in [0, 1]">(%tile, %k)
    %bytes = arith.muli %o, %four : index
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%t : tensor<1024xf32>) offset(%bytes : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
    tx8.WDMA_store slot(%r0 : tensor<1024xf32>) offset(%bytes : index) src(%a : !tx8.buffer) count(32) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  func.return
}

// CHECK-LABEL: func.func @rows
// CHECK:         [[KEPT:%[a-z0-9_]+]] = "spm.alloc"() <{size = {{[0-9]+}} : i64, copies = 1 : i64}> {kept}
// CHECK:         scf.for
// CHECK:           [[PART:%[a-z0-9_]+]] = "spm.offset"([[KEPT]]
// CHECK-NEXT:      tx8.TDMA_gatherScatter dst([[PART]] : !tx8.buffer) src({{.*}}) run_bytes(32) rs1(32) rn1(2) rs2(64) rn2(2) rs3(0) rn3(1) ws1(64) wn1(2) ws2(32) wn2(2) ws3(0) wn3(1) int8
// CHECK-NOT:       slot(%t
// CHECK:         xla.sync_tiles
// CHECK:         tx8.DTE_unicast {{.*}} n(128) tile(
// CHECK:         tx8.DTE_unicast {{.*}} n(128) tile(
// CHECK:         xla.sync_tiles
// CHECK:         scf.for
// CHECK-NOT:       RDMA_load
// CHECK:           [[AGAIN:%[a-z0-9_]+]] = "spm.offset"([[KEPT]]
// CHECK-NEXT:      tx8.TDMA_gatherScatter dst({{.*}}) src([[AGAIN]] : !tx8.buffer) run_bytes(256)
// CHECK:           tx8.WDMA_store slot(%r0

// -----

// What a third loop reads as well stays until then.

func.func @read_twice(%p0: tensor<512xf32>, %r0: tensor<512xf32>) {
  %tile = xla.tile_id [0, 15]
  %t = xla.allocate_scratch : tensor<512xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %o = xla.apply_indexing #xla.indexing_map<"(tile) -> (tile * 128), domain: tile in [0, 15]">(%tile)
  scf.for %k = %c0 to %c1 step %c1 {
    %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.WDMA_store slot(%t : tensor<512xf32>) offset(%o : index) src(%a : !tx8.buffer) count(32) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  %s = xla.sync_tiles %t : tensor<512xf32> -> tensor<512xf32>
  scf.for %k = %c0 to %c1 step %c1 {
    %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%t : tensor<512xf32>) offset(%o : index) count(32) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  scf.for %k = %c0 to %c1 step %c1 {
    %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%t : tensor<512xf32>) offset(%o : index) count(32) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) fp32
  }
  func.return
}

// CHECK-LABEL: func.func @read_twice
// CHECK:         {kept}
// CHECK-NOT:     slot(%t
// CHECK:         func.return
