// RUN: %opt -p overlap-stages %s --split-input-file | filecheck %s

// The product that a step begins with is computed a step ahead, into the other copy of its buffer.

func.func @attention(%p0: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %q = "spm.alloc"() <{size = 2048 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  %k = "spm.alloc"() <{size = 2048 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  scf.for %step = %c0 to %c4 step %c1 {
    %s = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %e = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %size = arith.constant 512 : index
    %at = arith.muli %step, %size : index
    %rows = "spm.offset"(%q, %at) : (!tx8.buffer, index) -> !tx8.buffer
    tx8.NE_gemm dst(%s : !tx8.buffer) left(%rows : !tx8.buffer) right(%k : !tx8.buffer) psum(%s : !tx8.buffer) rows(16) columns(16) depth(16) batch(1) transpose_left(0) transpose_right(0) accumulate(0) bf16 from bf16 nearest_even
    tx8.CGRATensor_TransOp_V_V_exp dst(%e : !tx8.buffer) src(%s : !tx8.buffer) n(256) bf16
    tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%at : index) src(%e : !tx8.buffer) count(256) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  } {xla.row_steps}
  func.return
}

// CHECK:      [[S:%[a-z0-9_]+]] = "spm.alloc"() <{size = 512 : i64, copies = 2 : i64}>
// CHECK:      [[FIRST:%[a-z0-9_]+]] = "spm.turn"([[S]], %{{.*}})
// CHECK:      tx8.NE_gemm dst([[FIRST]]
// CHECK-NEXT: scf.for %step
// CHECK:        [[NEXT:%[a-z0-9_]+]] = arith.addi %step
// CHECK-NEXT:   [[MORE:%[a-z0-9_]+]] = arith.cmpi slt, [[NEXT]]
// CHECK-NEXT:   scf.if [[MORE]] {
// CHECK:          [[AHEAD:%[a-z0-9_]+]] = "spm.turn"([[S]], [[NEXT]])
// CHECK:          tx8.NE_gemm dst([[AHEAD]]
// CHECK:        [[NOW:%[a-z0-9_]+]] = "spm.turn"([[S]], %step)
// CHECK-NOT:    NE_gemm
// CHECK:        exp dst({{.*}}src([[NOW]]

// -----

// CT waits for a statistic that the matrix engine spreads: that goes before the next step's product.

func.func @statistic(%p0: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %q = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  %k = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  scf.for %step = %c0 to %c4 step %c1 {
    %s = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %e = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %m = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %w = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    tx8.NE_gemm dst(%s : !tx8.buffer) left(%q : !tx8.buffer) right(%k : !tx8.buffer) psum(%s : !tx8.buffer) rows(16) columns(16) depth(16) batch(1) transpose_left(0) transpose_right(0) accumulate(0) bf16 from bf16 nearest_even
    tx8.CGRATensor_TransOp_V_V_exp dst(%e : !tx8.buffer) src(%s : !tx8.buffer) n(256) bf16
    tx8.NE_gemm dst(%m : !tx8.buffer) left(%e : !tx8.buffer) right(%k : !tx8.buffer) psum(%m : !tx8.buffer) rows(16) columns(16) depth(1) batch(1) transpose_left(0) transpose_right(0) accumulate(0) bf16 from bf16 nearest_even
    tx8.CGRATensor_TransOp_V_V_exp dst(%w : !tx8.buffer) src(%m : !tx8.buffer) n(256) bf16
    tx8.NE_gemm dst(%e : !tx8.buffer) left(%w : !tx8.buffer) right(%k : !tx8.buffer) psum(%e : !tx8.buffer) rows(16) columns(16) depth(16) batch(1) transpose_left(0) transpose_right(0) accumulate(0) bf16 from bf16 nearest_even
  } {xla.row_steps}
  func.return
}

// CHECK-LABEL: @statistic
// CHECK:      scf.for %step
// CHECK-NOT:    depth(16)
// CHECK:        NE_gemm {{.*}} depth(1)
// CHECK:        scf.if
// CHECK-NEXT:     spm.turn
// CHECK-NEXT:     NE_gemm {{.*}} depth(16)
// CHECK:        CGRATensor_TransOp_V_V_exp
// CHECK-NEXT:   NE_gemm {{.*}} depth(16)

// -----

// What CT makes of the last product of a step is made in the next one, behind the statistic, and of the last step behind the loop.

func.func @finished_behind(%p0: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %q = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  %k = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  scf.for %step = %c0 to %c4 step %c1 {
    %e = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %m = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %w = "spm.alloc"() <{size = 512 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %p = "spm.alloc"() <{size = 1024 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %o = "spm.alloc"() <{size = 256 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %size = arith.constant 512 : index
    %at = arith.muli %step, %size : index
    tx8.CGRATensor_TransOp_V_V_exp dst(%e : !tx8.buffer) src(%q : !tx8.buffer) n(256) bf16
    tx8.NE_gemm dst(%m : !tx8.buffer) left(%e : !tx8.buffer) right(%k : !tx8.buffer) psum(%m : !tx8.buffer) rows(16) columns(16) depth(1) batch(1) transpose_left(0) transpose_right(0) accumulate(0) bf16 from bf16 nearest_even
    tx8.CGRATensor_TransOp_V_V_exp dst(%w : !tx8.buffer) src(%m : !tx8.buffer) n(256) bf16
    tx8.NE_gemm dst(%p : !tx8.buffer) left(%w : !tx8.buffer) right(%k : !tx8.buffer) psum(%p : !tx8.buffer) rows(16) columns(16) depth(16) batch(1) transpose_left(0) transpose_right(0) accumulate(0) bf16 from bf16 nearest_even
    tx8.CGRATensor_TransOp_V_V_exp dst(%o : !tx8.buffer) src(%p : !tx8.buffer) n(256) bf16
    tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%at : index) src(%o : !tx8.buffer) count(256) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  } {xla.row_steps}
  func.return
}

// CHECK-LABEL: func.func @finished_behind
// CHECK-DAG:   [[P:%[a-z0-9_]+]] = "spm.alloc"() <{size = 1024 : i64, copies = 2 : i64}>
// CHECK-DAG:   "spm.alloc"() <{size = 512 : i64, copies = 2 : i64}>
// CHECK:       scf.for %step
// CHECK:         tx8.NE_gemm {{.*}} depth(1)
// CHECK:         [[BEFORE:%[a-z0-9_]+]] = arith.subi %step
// CHECK:         scf.if
// CHECK:           [[OLD:%[a-z0-9_]+]] = "spm.turn"([[P]], [[BEFORE]])
// CHECK:           exp dst({{.*}}src([[OLD]]
// CHECK:           tx8.WDMA_store
// CHECK:         tx8.NE_gemm {{.*}} depth(16)
// CHECK-NOT:     exp
// CHECK:       } {xla.row_steps}
// CHECK:       [[LAST:%[a-z0-9_]+]] = "spm.turn"([[P]]
// CHECK:       exp dst({{.*}}src([[LAST]]
// CHECK:       tx8.WDMA_store
