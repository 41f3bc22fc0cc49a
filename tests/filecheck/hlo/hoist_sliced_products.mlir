// RUN: %opt -p hoist-sliced-products --split-input-file %s | filecheck %s

// Eight turns, each of which multiplies its own slice: one product of all slices, whose slices the turns read.

func.func @main(%xs: tensor<8x4x64xf32>, %w: tensor<64x32xf32>, %h: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %eight = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "CAAAAA==">}> : () -> tensor<i32>
  %0, %1 = "stablehlo.while"(%zero, %h) ({
  ^bb0(%i: tensor<i32>, %s: tensor<4x32xf32>):
    %c = "stablehlo.compare"(%i, %eight) <{compare_type = "SIGNED", comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %s: tensor<4x32xf32>):
    %2 = "hlo.read_at"(%xs, %i) <{map = #xla.indexing_map<"(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">, index_maps = [#xla.indexing_map<"(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">], dims = array<i64: 0>, rooms = array<i64: 7>}> : (tensor<8x4x64xf32>, tensor<i32>) -> tensor<1x4x64xf32>
    %3 = "stablehlo.reshape"(%2) : (tensor<1x4x64xf32>) -> tensor<4x64xf32>
    %4 = "stablehlo.dot_general"(%3, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
    %5 = "stablehlo.add"(%s, %4) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    %6 = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%6, %5) : (tensor<i32>, tensor<4x32xf32>) -> ()
  }) {hlo.trip_count = 8 : i64} : (tensor<i32>, tensor<4x32xf32>) -> (tensor<i32>, tensor<4x32xf32>)
  func.return %1 : tensor<4x32xf32>
}

// CHECK:      func.func @main(%xs
// CHECK:        [[P:%[0-9a-z]+]] = "stablehlo.dot_general"(%xs, %w) {{.*}}lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]{{.*}} -> tensor<8x4x32xf32>
// CHECK:        "stablehlo.while"
// CHECK:          [[R:%[0-9a-z]+]] = "hlo.read_at"([[P]], %i{{.*}}) {{.*}}-> tensor<1x4x32xf32>
// CHECK:          [[Y:%[0-9a-z]+]] = "stablehlo.reshape"([[R]])
// CHECK:          "stablehlo.add"(%s{{.*}}, [[Y]])

// -----

// A loop that may leave slices out: as many would be multiplied in vain.

func.func @main(%xs: tensor<8x4x64xf32>, %w: tensor<64x32xf32>, %h: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %five = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "BQAAAA==">}> : () -> tensor<i32>
  %0, %1 = "stablehlo.while"(%zero, %h) ({
  ^bb0(%i: tensor<i32>, %s: tensor<4x32xf32>):
    %c = "stablehlo.compare"(%i, %five) <{compare_type = "SIGNED", comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %s: tensor<4x32xf32>):
    %2 = "hlo.read_at"(%xs, %i) <{map = #xla.indexing_map<"(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">, index_maps = [#xla.indexing_map<"(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">], dims = array<i64: 0>, rooms = array<i64: 7>}> : (tensor<8x4x64xf32>, tensor<i32>) -> tensor<1x4x64xf32>
    %3 = "stablehlo.reshape"(%2) : (tensor<1x4x64xf32>) -> tensor<4x64xf32>
    %4 = "stablehlo.dot_general"(%3, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
    %5 = "stablehlo.add"(%s, %4) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    %6 = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%6, %5) : (tensor<i32>, tensor<4x32xf32>) -> ()
  }) {hlo.trip_count = 5 : i64} : (tensor<i32>, tensor<4x32xf32>) -> (tensor<i32>, tensor<4x32xf32>)
  func.return %1 : tensor<4x32xf32>
}

// CHECK:      func.func @main(%xs
// CHECK:        "stablehlo.while"
// CHECK:          "hlo.read_at"(%xs
// CHECK:          "stablehlo.dot_general"

// -----

// A part of the weights, which is taken in each turn, is taken once.

func.func @main(%xs: tensor<8x4x64xf32>, %w: tensor<64x48xf32>, %h: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %eight = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "CAAAAA==">}> : () -> tensor<i32>
  %0, %1 = "stablehlo.while"(%zero, %h) ({
  ^bb0(%i: tensor<i32>, %s: tensor<4x32xf32>):
    %c = "stablehlo.compare"(%i, %eight) <{compare_type = "SIGNED", comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %s: tensor<4x32xf32>):
    %2 = "hlo.read_at"(%xs, %i) <{map = #xla.indexing_map<"(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">, index_maps = [#xla.indexing_map<"(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">], dims = array<i64: 0>, rooms = array<i64: 7>}> : (tensor<8x4x64xf32>, tensor<i32>) -> tensor<1x4x64xf32>
    %3 = "stablehlo.reshape"(%2) : (tensor<1x4x64xf32>) -> tensor<4x64xf32>
    %p = "stablehlo.slice"(%w) <{start_indices = array<i64: 0, 16>, limit_indices = array<i64: 64, 48>, strides = array<i64: 1, 1>}> : (tensor<64x48xf32>) -> tensor<64x32xf32>
    %4 = "stablehlo.dot_general"(%3, %p) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
    %5 = "stablehlo.add"(%s, %4) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    %6 = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%6, %5) : (tensor<i32>, tensor<4x32xf32>) -> ()
  }) {hlo.trip_count = 8 : i64} : (tensor<i32>, tensor<4x32xf32>) -> (tensor<i32>, tensor<4x32xf32>)
  func.return %1 : tensor<4x32xf32>
}

// CHECK:      func.func @main(%xs
// CHECK:        [[W:%[0-9a-z]+]] = "stablehlo.slice"(%w)
// CHECK:        [[P:%[0-9a-z]+]] = "stablehlo.dot_general"(%xs, [[W]]) {{.*}} -> tensor<8x4x32xf32>
// CHECK:        "stablehlo.while"
// CHECK-NOT:      "stablehlo.dot_general"
// CHECK:          "hlo.read_at"([[P]], %i

// -----

// What is added to the product in all turns and rows alike is added to all slices at once; what comes from the state is not.

func.func @main(%xs: tensor<8x4x64xf32>, %w: tensor<64x32xf32>, %h: tensor<4x32xf32>, %b: tensor<32xf32>) -> tensor<4x32xf32> {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %one = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AQAAAA==">}> : () -> tensor<i32>
  %eight = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "CAAAAA==">}> : () -> tensor<i32>
  %0, %1 = "stablehlo.while"(%zero, %h) ({
  ^bb0(%i: tensor<i32>, %s: tensor<4x32xf32>):
    %c = "stablehlo.compare"(%i, %eight) <{compare_type = "SIGNED", comparison_direction = "LT"}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %s: tensor<4x32xf32>):
    %2 = "hlo.read_at"(%xs, %i) <{map = #xla.indexing_map<"(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">, index_maps = [#xla.indexing_map<"(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 63]">], dims = array<i64: 0>, rooms = array<i64: 7>}> : (tensor<8x4x64xf32>, tensor<i32>) -> tensor<1x4x64xf32>
    %3 = "stablehlo.reshape"(%2) : (tensor<1x4x64xf32>) -> tensor<4x64xf32>
    %4 = "stablehlo.dot_general"(%3, %w) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
    %r = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 1>}> : (tensor<32xf32>) -> tensor<4x32xf32>
    %a = "stablehlo.add"(%4, %r) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    %5 = "stablehlo.add"(%a, %s) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
    %6 = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%6, %5) : (tensor<i32>, tensor<4x32xf32>) -> ()
  }) {hlo.trip_count = 8 : i64} : (tensor<i32>, tensor<4x32xf32>) -> (tensor<i32>, tensor<4x32xf32>)
  func.return %1 : tensor<4x32xf32>
}

// CHECK:      func.func @main(%xs
// CHECK:        [[P:%[0-9a-z]+]] = "stablehlo.dot_general"(%xs, %w) {{.*}} -> tensor<8x4x32xf32>
// CHECK-NEXT:   [[R:%[0-9a-z]+]] = "stablehlo.broadcast_in_dim"(%b)
// CHECK-NEXT:   [[B:%[0-9a-z]+]] = "stablehlo.broadcast_in_dim"([[R]]) <{broadcast_dimensions = array<i64: 1, 2>}> {{.*}} -> tensor<8x4x32xf32>
// CHECK-NEXT:   [[A:%[0-9a-z]+]] = "stablehlo.add"([[P]], [[B]])
// CHECK:        "stablehlo.while"
// CHECK:          [[S:%[0-9a-z]+]] = "hlo.read_at"([[A]], %i
// CHECK-NEXT:     [[Y:%[0-9a-z]+]] = "stablehlo.reshape"([[S]])
// CHECK-NEXT:     "stablehlo.add"([[Y]], %s
