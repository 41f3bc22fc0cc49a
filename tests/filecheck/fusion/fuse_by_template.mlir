// RUN: %opt -p 'fuse-by-template{config=elementwise}' %s | filecheck %s --check-prefix=ELEMENTWISE
// RUN: %opt -p 'fuse-by-template{config=matmul_epilogue}' %s | filecheck %s --check-prefix=MATMUL
// RUN: %opt -p 'fuse-by-template{config=reduction}' %s | filecheck %s --check-prefix=REDUCTION
// RUN: %opt -p 'fuse-by-template{config=concat_slice}' %s | filecheck %s --check-prefix=CONCAT
// RUN: %opt -p 'fuse-by-template{config=trivial}' %s | filecheck %s --check-prefix=TRIVIAL
// RUN: %opt -p 'fuse-by-template{config=elementwise single=true},fuse-by-template{config=reduction single=true}' %s | filecheck %s --check-prefix=SINGLE
// RUN: %opt -p 'fuse-by-template{config=matmul_epilogue},inline-calls,plan-fusions,emit-fusions' %s | filecheck %s --check-prefix=KEPT
// RUN: %opt -p 'fuse-by-template{config=elementwise},func.func{fusion=elementwise}(expand-error-functions,expand-chlo)' %s | filecheck %s --check-prefix=NESTED
// RUN: %opt -p 'builtin.module(func.func(fuse-by-template{config=elementwise}))' %s | filecheck %s --check-prefix=EACH
// RUN: not %opt -p 'fuse-by-template{config=wise}' %s 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not %opt -p 'stablehlo.add(simplify-hlo)' %s 2>&1 | filecheck %s --check-prefix=PLACE
// RUN: not %opt -p 'fuse-by-template{config=elementwise},func.func(plan-fusions)' %s 2>&1 | filecheck %s --check-prefix=CALLS
// RUN: not %opt -p 'func.func(simplify-hlo' %s 2>&1 | filecheck %s --check-prefix=OPEN

func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<6x8xf32>, tensor<8x8xf32>) {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %d = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %wide = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8xf32>) -> tensor<8x8xf32>
  %y = "stablehlo.add"(%d, %wide) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = "chlo.erf"(%y) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %sq = "stablehlo.multiply"(%e, %e) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = "stablehlo.reduce"(%sq, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %t = "stablehlo.add"(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%t) : (tensor<f32>) -> ()
  }) : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %top = "stablehlo.slice"(%y) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 2, 8>, strides = array<i64: 1, 1>}> : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %low = "stablehlo.slice"(%y) <{start_indices = array<i64: 4, 0>, limit_indices = array<i64: 8, 8>, strides = array<i64: 1, 1>}> : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %c = "stablehlo.concatenate"(%top, %low) <{dimension = 0 : i64}> : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %back = "stablehlo.transpose"(%y) <{permutation = array<i64: 1, 0>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %e, %s, %c, %back : tensor<8x8xf32>, tensor<8xf32>, tensor<6x8xf32>, tensor<8x8xf32>
}

func.func private @other(%x: tensor<8x8xf32>, %b: tensor<8xf32>, %i: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %wide = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8xf32>) -> tensor<8x8xf32>
  %n = "stablehlo.negate"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = "stablehlo.add"(%n, %wide) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = "stablehlo.dot_general"(%n, %i) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %m = "stablehlo.multiply"(%d, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %m2 = "stablehlo.negate"(%m) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %a, %m2 : tensor<8x8xf32>, tensor<8x8xf32>
}

// ELEMENTWISE:      %sq, %e, %y = func.call @elementwise_fusion(%b, %d)
// ELEMENTWISE:      "stablehlo.reduce"(%sq
// ELEMENTWISE:      %a, %n = func.call @elementwise_fusion.1(%b, %x)
// ELEMENTWISE:      %m2 = func.call @elementwise_fusion.2(%d, %a)
// ELEMENTWISE:      func.func private @elementwise_fusion({{.*}} attributes {fusion = "elementwise"}
// ELEMENTWISE-NEXT:   %wide = "stablehlo.broadcast_in_dim"(%b)
// ELEMENTWISE-NEXT:   %y = "stablehlo.add"(%d, %wide)
// ELEMENTWISE-NEXT:   %e = "chlo.erf"(%y)
// ELEMENTWISE-NEXT:   %sq = "stablehlo.multiply"(%e, %e)
// ELEMENTWISE-NEXT:   func.return %sq, %e, %y

// A dot and all behind it; what it reads is not in it, and neither is what makes that.
// MATMUL:      %sq, %e, %y = func.call @matmul_epilogue_fusion(%x, %w, %b)
// MATMUL:      %n = "stablehlo.negate"(%x)
// MATMUL-NEXT: %a = "stablehlo.add"
// MATMUL-NEXT: %m2 = func.call @matmul_epilogue_fusion.1(%n, %i, %a)
// MATMUL:      func.func private @matmul_epilogue_fusion({{.*}} attributes {fusion = "matmul_epilogue"}
// MATMUL-NEXT:   %d = "stablehlo.dot_general"

// The square alone is read by the reduction; erf is a result of its own.
// REDUCTION:      %e = "chlo.erf"
// REDUCTION-NEXT: %s = func.call @reduction_fusion(%e)
// REDUCTION:      func.func private @reduction_fusion({{.*}} attributes {fusion = "reduction"}
// REDUCTION:        "stablehlo.multiply"(%e, %e)
// REDUCTION-NEXT:   %s = "stablehlo.reduce"

// CONCAT:      %c = func.call @concat_slice_fusion(%y)
// CONCAT-NEXT: %back = "stablehlo.transpose"
// CONCAT:      func.func private @concat_slice_fusion({{.*}} attributes {fusion = "concat_slice"}

// TRIVIAL:      %top = func.call @trivial_fusion(%y)
// TRIVIAL-NEXT: %low = func.call @trivial_fusion.1(%y)
// TRIVIAL-NEXT: %c = "stablehlo.concatenate"
// TRIVIAL-NEXT: %back = func.call @trivial_fusion.2(%y)

// SINGLE: %s = func.call @reduction_fusion(%sq)

// What has a tag is one fusion, which plan-fusions keeps.
// KEPT: launch.kernel @matmul_epilogue_fusion(%x, %w, %b)
// KEPT: launch.kernel @reduce_fusion

// Passes on functions with a tag change nothing else.
// NESTED-LABEL: func.func @main
// NESTED:       func.func private @elementwise_fusion(
// NESTED-NOT:   chlo.erf
// NESTED:       func.return %sq, %e, %y

// Passes on each function alone: what they make gets names that are free.
// EACH:     %sq, %e, %y = func.call @elementwise_fusion(%b, %d)
// EACH:     %a, %n = func.call @elementwise_fusion.2(%b, %x)
// EACH:     %m2 = func.call @elementwise_fusion.1(%d, %a)

// UNKNOWN: error E1004: no template is called 'wise'
// UNKNOWN-NEXT: hint: config is one of elementwise, matmul_epilogue, reduction, concat_slice, trivial
// PLACE: error E1004: passes cannot be nested in stablehlo.add
// OPEN: error E1004: the list of passes ends inside of 1 open parentheses
// CALLS: error E1004: @main calls @elementwise_fusion, which is not there
