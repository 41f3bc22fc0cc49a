// RUN: %opt -p split-gates --split-input-file %s | filecheck %s

// Two gates of a loop's product, with what is added to them: each is a product with its part of the weights, a slice of a slice is
// one slice.

func.func @main(%h0: tensor<4x32xf32>, %w: tensor<32x192xf32>, %x: tensor<4x64xf32>, %b: tensor<64xf32>) -> tensor<4x32xf32> {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %eight = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "CAAAAA==">}> : () -> tensor<i32>
  %0, %1 = "stablehlo.while"(%zero, %h0) ({
  ^bb0(%i: tensor<i32>, %h: tensor<4x32xf32>):
    %c = "stablehlo.compare"(%i, %eight) <{compare_type = "SIGNED", comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %h: tensor<4x32xf32>):
    %u = "stablehlo.slice"(%w) <{start_indices = array<i64: 0, 128>, limit_indices = array<i64: 32, 192>, strides = array<i64: 1, 1>}> : (tensor<32x192xf32>) -> tensor<32x64xf32>
    %y = "stablehlo.dot_general"(%h, %u) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x32xf32>, tensor<32x64xf32>) -> tensor<4x64xf32>
    %s = "stablehlo.add"(%x, %y) : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %r = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 1>}> : (tensor<64xf32>) -> tensor<4x64xf32>
    %a = "stablehlo.add"(%s, %r) : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %f = "stablehlo.slice"(%a) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 4, 32>, strides = array<i64: 1, 1>}> : (tensor<4x64xf32>) -> tensor<4x32xf32>
    %g = "stablehlo.slice"(%a) <{start_indices = array<i64: 0, 32>, limit_indices = array<i64: 4, 64>, strides = array<i64: 1, 1>}> : (tensor<4x64xf32>) -> tensor<4x32xf32>
    %t = "stablehlo.tanh"(%g) : (tensor<4x32xf32>) -> tensor<4x32xf32>
    %n = "stablehlo.multiply"(%f, %t) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    %j = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%j, %n) : (tensor<i32>, tensor<4x32xf32>) -> ()
  }) {hlo.trip_count = 8 : i64} : (tensor<i32>, tensor<4x32xf32>) -> (tensor<i32>, tensor<4x32xf32>)
  func.return %1 : tensor<4x32xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:      [[U:%[0-9a-z]+]] = "stablehlo.slice"(%w) <{start_indices = array<i64: 0, 128>, limit_indices = array<i64: 32, 160>,
// CHECK-NEXT: [[Y:%[0-9a-z]+]] = "stablehlo.dot_general"(%{{[a-z0-9_]+}}, [[U]]) {{.*}} -> tensor<4x32xf32>
// CHECK-NEXT: [[X:%[0-9a-z]+]] = "stablehlo.slice"(%x) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 4, 32>,
// CHECK-NEXT: [[S:%[0-9a-z]+]] = "stablehlo.add"([[X]], [[Y]])
// CHECK-NEXT: [[B:%[0-9a-z]+]] = "stablehlo.slice"(%b) <{start_indices = array<i64: 0>, limit_indices = array<i64: 32>,
// CHECK-NEXT: [[R:%[0-9a-z]+]] = "stablehlo.broadcast_in_dim"([[B]])
// CHECK-NEXT: [[F:%[0-9a-z]+]] = "stablehlo.add"([[S]], [[R]])
// CHECK:      "stablehlo.slice"(%w) <{start_indices = array<i64: 0, 160>, limit_indices = array<i64: 32, 192>,
// CHECK-NOT:  "stablehlo.dot_general"{{.*}} -> tensor<4x64xf32>
// CHECK:      "stablehlo.multiply"([[F]],

// -----

// Weights that turns change, and a product that is more than its weights, stay.

func.func @main(%h0: tensor<4x32xf32>, %w0: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %eight = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "CAAAAA==">}> : () -> tensor<i32>
  %0, %1, %2 = "stablehlo.while"(%zero, %h0, %w0) ({
  ^bb0(%i: tensor<i32>, %h: tensor<4x32xf32>, %w: tensor<32x64xf32>):
    %c = "stablehlo.compare"(%i, %eight) <{compare_type = "SIGNED", comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %h: tensor<4x32xf32>, %w: tensor<32x64xf32>):
    %y = "stablehlo.dot_general"(%h, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x32xf32>, tensor<32x64xf32>) -> tensor<4x64xf32>
    %f = "stablehlo.slice"(%y) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 4, 32>, strides = array<i64: 1, 1>}> : (tensor<4x64xf32>) -> tensor<4x32xf32>
    %g = "stablehlo.slice"(%y) <{start_indices = array<i64: 0, 32>, limit_indices = array<i64: 4, 64>, strides = array<i64: 1, 1>}> : (tensor<4x64xf32>) -> tensor<4x32xf32>
    %n = "stablehlo.multiply"(%f, %g) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    %m = "stablehlo.add"(%w, %w) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    %j = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%j, %n, %m) : (tensor<i32>, tensor<4x32xf32>, tensor<32x64xf32>) -> ()
  }) {hlo.trip_count = 8 : i64} : (tensor<i32>, tensor<4x32xf32>, tensor<32x64xf32>) -> (tensor<i32>, tensor<4x32xf32>, tensor<32x64xf32>)
  func.return %2 : tensor<32x64xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:      "stablehlo.dot_general"(%h{{.*}}, %w{{.*}}) {{.*}} -> tensor<4x64xf32>

// -----

// Outside of a loop weights are read once anyway.

func.func @main(%h: tensor<4x32xf32>, %w: tensor<32x64xf32>) -> tensor<4x32xf32> {
  %y = "stablehlo.dot_general"(%h, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x32xf32>, tensor<32x64xf32>) -> tensor<4x64xf32>
  %f = "stablehlo.slice"(%y) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 4, 32>, strides = array<i64: 1, 1>}> : (tensor<4x64xf32>) -> tensor<4x32xf32>
  %g = "stablehlo.slice"(%y) <{start_indices = array<i64: 0, 32>, limit_indices = array<i64: 4, 64>, strides = array<i64: 1, 1>}> : (tensor<4x64xf32>) -> tensor<4x32xf32>
  %n = "stablehlo.multiply"(%f, %g) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  func.return %n : tensor<4x32xf32>
}

// CHECK-LABEL: func.func @main
// CHECK:      "stablehlo.dot_general"(%h, %w) {{.*}} -> tensor<4x64xf32>
