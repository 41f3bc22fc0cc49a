// RUN: %opt -p overlap-turns %s --split-input-file | filecheck %s

// The vector engine's part of a turn runs beside the next turn's product, which goes into the other copy of its buffer.

func.func @bands(%p0: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %x = "spm.alloc"() <{size = 8192 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  %k = "spm.alloc"() <{size = 2048 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  scf.for %turn = %c0 to %c4 step %c1 {
    %s = "spm.alloc"() <{size = 2048 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %e = "spm.alloc"() <{size = 2048 : i64, copies = 1 : i64}> : () -> !tx8.buffer
    %size = arith.constant 2048 : index
    %at = arith.muli %turn, %size : index
    %rows = "spm.offset"(%x, %at) : (!tx8.buffer, index) -> !tx8.buffer
    tx8.NE_gemm dst(%s : !tx8.buffer) left(%rows : !tx8.buffer) right(%k : !tx8.buffer) psum(%s : !tx8.buffer) rows(16) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(0) accumulate(0) bf16 from bf16 nearest_even
    tx8.CGRATensor_TransOp_V_V_exp dst(%e : !tx8.buffer) src(%s : !tx8.buffer) n(1024) bf16
    tx8.WDMA_store slot(%r0 : tensor<4096xbf16>) offset(%at : index) src(%e : !tx8.buffer) count(1024) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16
  } {xla.band_turns}
  func.return
}

// CHECK:      [[S:%[a-z0-9_]+]] = "spm.alloc"() <{size = 2048 : i64, copies = 2 : i64}>
// CHECK:      [[FIRST:%[a-z0-9_]+]] = "spm.turn"([[S]], %{{.*}})
// CHECK:      tx8.NE_gemm dst([[FIRST]]
// CHECK:      [[TURNS:%[a-z0-9_]+]] = arith.constant 3 : index
// CHECK-NEXT: scf.for %turn = %{{.*}} to [[TURNS]]
// CHECK:        [[NEXT:%[a-z0-9_]+]] = arith.addi %turn
// CHECK-DAG:    [[AHEAD:%[a-z0-9_]+]] = "spm.turn"([[S]], [[NEXT]])
// CHECK-DAG:    [[NOW:%[a-z0-9_]+]] = "spm.turn"([[S]], %turn)
// CHECK-DAG:    tx8.NE_gemm dst([[AHEAD]]
// CHECK-DAG:    exp dst({{.*}}src([[NOW]]
// CHECK:        WDMA_store
// CHECK:      }
// CHECK:      [[LAST:%[a-z0-9_]+]] = "spm.turn"([[S]], %{{.*}})
// CHECK-NOT:  NE_gemm
// CHECK:      exp dst({{.*}}src([[LAST]]
// CHECK:      WDMA_store

// -----

// A buffer that both halves share, of which no turn has a copy of its own, forbids the cut.

func.func @shared(%p0: tensor<4096xbf16>, %r0: tensor<4096xbf16>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %k = "spm.alloc"() <{size = 2048 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  %s = "spm.alloc"() <{size = 2048 : i64, copies = 1 : i64}> : () -> !tx8.buffer
  scf.for %turn = %c0 to %c4 step %c1 {
    tx8.NE_gemm dst(%s : !tx8.buffer) left(%k : !tx8.buffer) right(%k : !tx8.buffer) psum(%s : !tx8.buffer) rows(16) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(0) accumulate(0) bf16 from bf16 nearest_even
    tx8.CGRATensor_TransOp_V_V_exp dst(%s : !tx8.buffer) src(%s : !tx8.buffer) n(1024) bf16
  } {xla.band_turns}
  func.return
}

// CHECK-LABEL: @shared
// CHECK-COUNT-1: NE_gemm
// CHECK:       exp
// CHECK-NEXT:  } {xla.band_turns}
