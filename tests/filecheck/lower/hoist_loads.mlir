// RUN: %opt -p hoist-loads --split-input-file %s | filecheck %s

// What does not depend on the step is loaded in front of the loop, with the offset that it needs; the rest stays.

func.func @same(%p0: tensor<4096xbf16>, %p1: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  scf.for %step = %c0 to %c4 step %c1 {
    %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %b = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile * 128), domain: tile in [0, 15], step in [0, 3]">(%tile, %step)
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(%o : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    %q = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile * 512 + step * 128), domain: tile in [0, 15], step in [0, 3]">(%tile, %step)
    tx8.RDMA_load dst(%b : !tx8.buffer) slot(%p1 : tensor<4096xbf16>) offset(%q : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.CGRATensor_ArithOp_V_VV_add dst(%b : !tx8.buffer) a(%a : !tx8.buffer) b(%b : !tx8.buffer) n(64) bf16
    tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%q : index) src(%b : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @same
// CHECK:         [[A:%[a-z0-9_]+]] = "spm.alloc"()
// CHECK:         [[O:%[a-z0-9_]+]] = xla.apply_indexing {{.*}}(tile * 128)
// CHECK-NEXT:    tx8.RDMA_load dst([[A]] : {{.*}}slot(%p0 {{.*}}offset([[O]]
// CHECK-NEXT:    scf.for
// CHECK-NOT:       slot(%p0
// CHECK:           tx8.RDMA_load {{.*}}slot(%p1
// CHECK:           add dst({{.*}}a([[A]]

// -----

// A tensor that the loop writes is loaded anew in every turn.

func.func @written(%r0: tensor<64xbf16>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  scf.for %step = %c0 to %c4 step %c1 {
    %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %b = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%r0 : tensor<64xbf16>) offset(0) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    tx8.CGRATensor_ArithOp_V_VV_add dst(%b : !tx8.buffer) a(%a : !tx8.buffer) b(%a : !tx8.buffer) n(64) bf16
    tx8.WDMA_store slot(%r0 : tensor<64xbf16>) offset(0) src(%b : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @written
// CHECK:         scf.for
// CHECK:           tx8.RDMA_load

// -----

// A loop that turns a tensor that every step needs leaves the loop of the steps as a whole; one that the step decides about stays.

func.func @turned(%p0: tensor<4096xbf16>, %p1: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  scf.for %step = %c0 to %c4 step %c1 {
    %a = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %b = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %c = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(0) count(128) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    scf.for %half = %c0 to %c2 step %c1 {
      %o = xla.apply_indexing #xla.indexing_map<"(half) -> (half * 64), domain: half in [0, 1]">(%half)
      tx8.RDMA_load dst(%b : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(%o : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    }
    scf.for %half = %c0 to %c2 step %c1 {
      %o = xla.apply_indexing #xla.indexing_map<"(half, step) -> (half * 64 + step * 128), domain: half in [0, 1], step in [0, 3]">(%half, %step)
      tx8.RDMA_load dst(%c : !tx8.buffer) slot(%p1 : tensor<4096xbf16>) offset(%o : index) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    }
    tx8.CGRATensor_ArithOp_V_VV_add dst(%c : !tx8.buffer) a(%a : !tx8.buffer) b(%c : !tx8.buffer) n(128) bf16
    tx8.CGRATensor_ArithOp_V_VV_add dst(%c : !tx8.buffer) a(%b : !tx8.buffer) b(%c : !tx8.buffer) n(128) bf16
    %q = xla.apply_indexing #xla.indexing_map<"(step) -> (step * 128), domain: step in [0, 3]">(%step)
    tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%q : index) src(%c : !tx8.buffer) count(128) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  }
  func.return
}

// CHECK-LABEL: func.func @turned
// CHECK:         tx8.RDMA_load {{.*}}slot(%p0 {{.*}}count(128)
// CHECK-NEXT:    scf.for
// CHECK:           tx8.RDMA_load {{.*}}slot(%p0 {{.*}}count(64)
// CHECK:         scf.for %step
// CHECK-NOT:       slot(%p0
// CHECK:           scf.for
// CHECK:             tx8.RDMA_load {{.*}}slot(%p1

// -----

// Tiles that have fewer steps than others load what all their steps read in the first one, if they have one. A condition that may be
// met later only is no reason to load anything before.

func.func @fewer(%p0: tensor<4096xbf16>, %p1: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %tile = xla.tile_id [0, 15]
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  scf.for %step = %c0 to %c2 step %c1 {
    %n = "vec.extent"(%tile, %step) <{map = #xla.indexing_map<"(tile, step) -> (tile * -2 - step + 28), domain: tile in [0, 15], step in [0, 1]">, kind = "min", lower = 0 : i64, upper = 1 : i64}> : (index, index) -> index
    %is_left = arith.cmpi sgt, %n, %c0 : index
    scf.if %is_left {
      %a = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p0 : tensor<4096xbf16>) offset(0) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
      %q = xla.apply_indexing #xla.indexing_map<"(tile, step) -> (tile * 256 + step * 128), domain: tile in [0, 15], step in [0, 1]">(%tile, %step)
      tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%q : index) src(%a : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    }
    %m = "vec.extent"(%tile, %step) <{map = #xla.indexing_map<"(tile, step) -> (tile * -2 + step), domain: tile in [0, 15], step in [0, 1]">, kind = "min", lower = 0 : i64, upper = 1 : i64}> : (index, index) -> index
    %is_late = arith.cmpi sgt, %m, %c0 : index
    scf.if %is_late {
      %b = "spm.alloc"() <{size = 128 : i64, copies = 1 : i64}> : () -> !tx8.buffer
      tx8.RDMA_load dst(%b : !tx8.buffer) slot(%p1 : tensor<4096xbf16>) offset(0) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
      tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(0) src(%b : !tx8.buffer) count(64) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
    }
  }
  func.return
}

// CHECK-LABEL: func.func @fewer
// CHECK:         [[A:%[a-z0-9_]+]] = "spm.alloc"()
// CHECK-NEXT:    [[N:%[a-z0-9_]+]] = "vec.extent"(%tile, %c0) {{.*}}tile * -2 - step + 28
// CHECK-NEXT:    [[IS_LEFT:%[a-z0-9_]+]] = arith.cmpi sgt, [[N]], %c0
// CHECK-NEXT:    scf.if [[IS_LEFT]] {
// CHECK-NEXT:      tx8.RDMA_load dst([[A]] : {{.*}}slot(%p0
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.for
// CHECK-NOT:       slot(%p0
// CHECK:           tx8.WDMA_store {{.*}}src([[A]]
// CHECK:           tx8.RDMA_load {{.*}}slot(%p1
