// RUN: %opt -p sum-behind-loops --split-input-file %s | filecheck %s

// Eight turns, from the last slice to the first: what they multiply is written, and multiplied behind the loop.

func.func @main(%xs: tensor<8x4x64xf32>, %s: tensor<64x32xf32>, %h: tensor<4x32xf32>) -> (tensor<64x32xf32>, tensor<4x32xf32>) {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %seven = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "BwAAAA==">}> : () -> tensor<i32>
  %0, %1, %2 = "stablehlo.while"(%zero, %s, %h) ({
  ^bb0(%i: tensor<i32>, %a: tensor<64x32xf32>, %b: tensor<4x32xf32>):
    %c = "stablehlo.compare"(%i, %seven) <{compare_type = "SIGNED", comparison_direction = "LE"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %a: tensor<64x32xf32>, %b: tensor<4x32xf32>):
    %at = "stablehlo.subtract"(%seven, %i) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = "hlo.read_at"(%xs, %at) <{map = #xla.indexing_map<"(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">, index_maps = [#xla.indexing_map<"(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">], dims = array<i64: 0>, rooms = array<i64: 7>}> : (tensor<8x4x64xf32>, tensor<i32>) -> tensor<1x4x64xf32>
    %4 = "stablehlo.reshape"(%3) : (tensor<1x4x64xf32>) -> tensor<4x64xf32>
    %5 = "stablehlo.tanh"(%b) : (tensor<4x32xf32>) -> tensor<4x32xf32>
    %6 = "stablehlo.dot_general"(%5, %4) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x32xf32>, tensor<4x64xf32>) -> tensor<32x64xf32>
    %7 = "stablehlo.transpose"(%6) <{permutation = array<i64: 1, 0>}> : (tensor<32x64xf32>) -> tensor<64x32xf32>
    %8 = "stablehlo.add"(%a, %7) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    %9 = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%9, %8, %5) : (tensor<i32>, tensor<64x32xf32>, tensor<4x32xf32>) -> ()
  }) {hlo.trip_count = 8 : i64} : (tensor<i32>, tensor<64x32xf32>, tensor<4x32xf32>) -> (tensor<i32>, tensor<64x32xf32>, tensor<4x32xf32>)
  func.return %1, %2 : tensor<64x32xf32>, tensor<4x32xf32>
}

// CHECK:      func.func @main(%xs
// CHECK:        %{{.*}}, [[D:%[0-9a-z]+]], [[H:%[0-9a-z]+]] = "stablehlo.while"
// CHECK:          [[AT:%[0-9a-z]+]] = "stablehlo.subtract"
// CHECK-NEXT:     [[T:%[0-9a-z]+]] = "stablehlo.tanh"
// CHECK-NEXT:     [[R:%[0-9a-z]+]] = "stablehlo.reshape"([[T]]) : (tensor<4x32xf32>) -> tensor<1x4x32xf32>
// CHECK:          "stablehlo.dynamic_update_slice"(%{{.*}}, [[R]], [[AT]], %{{.*}} -> tensor<8x4x32xf32>
// CHECK-NEXT:     "stablehlo.add"
// CHECK-NEXT:     "stablehlo.return"
// CHECK:        [[P:%[0-9a-z]+]] = "stablehlo.dot_general"([[D]], %xs) {{.*}}lhs_contracting_dimensions = [0, 1], rhs_contracting_dimensions = [0, 1]{{.*}} -> tensor<32x64xf32>
// CHECK-NEXT:   [[Q:%[0-9a-z]+]] = "stablehlo.transpose"([[P]])
// CHECK-NEXT:   [[S:%[0-9a-z]+]] = "stablehlo.add"(%s, [[Q]])
// CHECK-NEXT:   func.return [[S]], [[H]]

// -----

// Turns that read the first slice again, and a sum that is no larger than what would be written.

func.func @main(%xs: tensor<8x4x64xf32>, %s: tensor<64x32xf32>, %t: tensor<4x4xf32>) -> (tensor<64x32xf32>, tensor<4x4xf32>) {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %seven = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "BwAAAA==">}> : () -> tensor<i32>
  %h = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACAPw==">}> : () -> tensor<4x32xf32>
  %0, %1, %2 = "stablehlo.while"(%zero, %s, %t) ({
  ^bb0(%i: tensor<i32>, %a: tensor<64x32xf32>, %b: tensor<4x4xf32>):
    %c = "stablehlo.compare"(%i, %seven) <{compare_type = "SIGNED", comparison_direction = "LE"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %a: tensor<64x32xf32>, %b: tensor<4x4xf32>):
    %at = "stablehlo.subtract"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = "hlo.read_at"(%xs, %at) <{map = #xla.indexing_map<"(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">, index_maps = [#xla.indexing_map<"(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">], dims = array<i64: 0>, rooms = array<i64: 7>}> : (tensor<8x4x64xf32>, tensor<i32>) -> tensor<1x4x64xf32>
    %4 = "stablehlo.reshape"(%3) : (tensor<1x4x64xf32>) -> tensor<4x64xf32>
    %5 = "stablehlo.tanh"(%h) : (tensor<4x32xf32>) -> tensor<4x32xf32>
    %6 = "stablehlo.dot_general"(%4, %5) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x64xf32>, tensor<4x32xf32>) -> tensor<64x32xf32>
    %7 = "stablehlo.add"(%a, %6) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    %r = "hlo.read_at"(%xs, %i) <{map = #xla.indexing_map<"(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">, index_maps = [#xla.indexing_map<"(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">], dims = array<i64: 0>, rooms = array<i64: 7>}> : (tensor<8x4x64xf32>, tensor<i32>) -> tensor<1x4x64xf32>
    %8 = "stablehlo.reshape"(%r) : (tensor<1x4x64xf32>) -> tensor<4x64xf32>
    %e = "stablehlo.exponential"(%8) : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %9 = "stablehlo.dot_general"(%8, %e) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x4xf32>
    %10 = "stablehlo.add"(%b, %9) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %11 = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%11, %7, %10) : (tensor<i32>, tensor<64x32xf32>, tensor<4x4xf32>) -> ()
  }) {hlo.trip_count = 8 : i64} : (tensor<i32>, tensor<64x32xf32>, tensor<4x4xf32>) -> (tensor<i32>, tensor<64x32xf32>, tensor<4x4xf32>)
  func.return %1, %2 : tensor<64x32xf32>, tensor<4x4xf32>
}

// CHECK:      func.func @main(%xs
// CHECK:        "stablehlo.while"
// CHECK-NOT:    "stablehlo.dynamic_update_slice"
// CHECK:        func.return
