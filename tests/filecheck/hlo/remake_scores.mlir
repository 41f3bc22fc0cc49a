// RUN: %opt -p remake-scores --split-input-file %s | filecheck %s

// What was made of scores is multiplied along its columns and along its rows: the second product has it of scores of its own, which
// are turned, and the maximum of each row that the first one has found.

func.func @main(%q: tensor<16x512x64xbf16>, %k: tensor<16x512x64xbf16>, %v: tensor<16x512x64xbf16>) -> (tensor<16x512x64xbf16>, tensor<16x512x64xbf16>) {
  %low = "stablehlo.constant"() <{value = #hlo.literal<"bfloat16", [], "gP8=">}> : () -> tensor<bf16>
  %s = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<16x512x64xbf16>, tensor<16x512x64xbf16>) -> tensor<16x512x512xbf16>
  %m = "stablehlo.reduce"(%s, %low) <{dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %r = "stablehlo.maximum"(%a, %b) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
    "stablehlo.return"(%r) : (tensor<bf16>) -> ()
  }) : (tensor<16x512x512xbf16>, tensor<bf16>) -> tensor<16x512xbf16>
  %ms = "stablehlo.broadcast_in_dim"(%m) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<16x512xbf16>) -> tensor<16x512x512xbf16>
  %e = "stablehlo.subtract"(%s, %ms) : (tensor<16x512x512xbf16>, tensor<16x512x512xbf16>) -> tensor<16x512x512xbf16>
  %o = "stablehlo.dot_general"(%e, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<16x512x512xbf16>, tensor<16x512x64xbf16>) -> tensor<16x512x64xbf16>
  %g = "stablehlo.dot_general"(%v, %e) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<16x512x64xbf16>, tensor<16x512x512xbf16>) -> tensor<16x64x512xbf16>
  %t = "stablehlo.transpose"(%g) <{permutation = array<i64: 0, 2, 1>}> : (tensor<16x64x512xbf16>) -> tensor<16x512x64xbf16>
  func.return %o, %t : tensor<16x512x64xbf16>, tensor<16x512x64xbf16>
}

// CHECK:      func.func @main(%q
// CHECK:        [[S:%[0-9a-z]+]] = "hlo.fusion"(%q, %k) <{{.*}}"scores_fusion"
// CHECK:          "stablehlo.dot_general"
// CHECK:        [[E:%[0-9a-z]+]], [[M:%[0-9a-z]+]] = "hlo.fusion"([[S]]) <{{.*}}"rows_of_scores_fusion"
// CHECK:          "stablehlo.reduce"
// CHECK:        [[O:%[0-9a-z]+]] = "stablehlo.dot_general"([[E]], %v)
// CHECK:        [[T:%[0-9a-z]+]] = "hlo.fusion"(%k, %q, [[M]]) <{{.*}}"turned_scores_fusion"
// CHECK:          [[B:%[0-9a-z]+]] = "stablehlo.broadcast_in_dim"({{.*}}) <{broadcast_dimensions = array<i64: 0, 2>}>
// CHECK:          "stablehlo.subtract"({{.*}}, [[B]])
// CHECK:        [[P:%[0-9a-z]+]] = "stablehlo.dot_general"([[T]], %v) {{.*}}lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]
// CHECK:        func.return [[O]]

// -----

// A mask in memory would have to be turned: nothing is made anew.

func.func @main(%q: tensor<16x512x64xbf16>, %k: tensor<16x512x64xbf16>, %v: tensor<16x512x64xbf16>, %mask: tensor<16x512x512xbf16>) -> (tensor<16x512x64xbf16>, tensor<16x512x64xbf16>) {
  %s = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<16x512x64xbf16>, tensor<16x512x64xbf16>) -> tensor<16x512x512xbf16>
  %e = "stablehlo.multiply"(%s, %mask) : (tensor<16x512x512xbf16>, tensor<16x512x512xbf16>) -> tensor<16x512x512xbf16>
  %o = "stablehlo.dot_general"(%e, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<16x512x512xbf16>, tensor<16x512x64xbf16>) -> tensor<16x512x64xbf16>
  %g = "stablehlo.dot_general"(%e, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<16x512x512xbf16>, tensor<16x512x64xbf16>) -> tensor<16x512x64xbf16>
  func.return %o, %g : tensor<16x512x64xbf16>, tensor<16x512x64xbf16>
}

// CHECK:      func.func @main(%q
// CHECK-NOT:    hlo.fusion
// CHECK:        func.return

// -----

// A mask that all batches share is little: it is turned in memory.

func.func @main(%q: tensor<16x512x64xbf16>, %k: tensor<16x512x64xbf16>, %v: tensor<16x512x64xbf16>, %mask: tensor<512x512xbf16>) -> (tensor<16x512x64xbf16>, tensor<16x512x64xbf16>) {
  %s = "stablehlo.dot_general"(%q, %k) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<16x512x64xbf16>, tensor<16x512x64xbf16>) -> tensor<16x512x512xbf16>
  %m = "stablehlo.broadcast_in_dim"(%mask) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<512x512xbf16>) -> tensor<16x512x512xbf16>
  %e = "stablehlo.multiply"(%s, %m) : (tensor<16x512x512xbf16>, tensor<16x512x512xbf16>) -> tensor<16x512x512xbf16>
  %o = "stablehlo.dot_general"(%e, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<16x512x512xbf16>, tensor<16x512x64xbf16>) -> tensor<16x512x64xbf16>
  %g = "stablehlo.dot_general"(%e, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<16x512x512xbf16>, tensor<16x512x64xbf16>) -> tensor<16x512x64xbf16>
  func.return %o, %g : tensor<16x512x64xbf16>, tensor<16x512x64xbf16>
}

// CHECK:      func.func @main(%q
// CHECK:        [[T:%[0-9a-z]+]] = "stablehlo.transpose"(%mask) <{permutation = array<i64: 1, 0>}>
// CHECK:        "hlo.fusion"({{.*}}[[T]]{{.*}}"turned_scores_fusion"
// CHECK:          "stablehlo.broadcast_in_dim"({{.*}}) <{broadcast_dimensions = array<i64: 1, 2>}>
// CHECK:        func.return

// -----

// A product whose terms are as many as its columns takes the matrix engine as long as memory takes its result.

func.func @main(%x: tensor<2048x1024xbf16>, %w: tensor<1024x4096xbf16>, %v: tensor<4096x1024xbf16>, %g: tensor<2048x1024xbf16>) -> (tensor<2048x1024xbf16>, tensor<4096x1024xbf16>) {
  %s = "stablehlo.dot_general"(%x, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2048x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<2048x4096xbf16>
  %e = "stablehlo.tanh"(%s) : (tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16>
  %o = "stablehlo.dot_general"(%e, %v) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2048x4096xbf16>, tensor<4096x1024xbf16>) -> tensor<2048x1024xbf16>
  %t = "stablehlo.dot_general"(%e, %g) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<2048x4096xbf16>, tensor<2048x1024xbf16>) -> tensor<4096x1024xbf16>
  func.return %o, %t : tensor<2048x1024xbf16>, tensor<4096x1024xbf16>
}

// CHECK:      func.func @main(%x
// CHECK-NOT:    hlo.fusion
// CHECK:        func.return
