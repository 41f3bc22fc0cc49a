// RUN: %opt -p simplify-hlo %s --split-input-file | filecheck %s

// Transposes one after the other are one, an identity is none; one that moves only dimensions of size 1 is a reshape.

func.func @main(%a: tensor<2x3x4xf32>, %b: tensor<1x5xf32>) -> (tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<5x1xf32>) {
  %0 = "stablehlo.transpose"(%a) <{permutation = array<i64: 2, 0, 1>}> : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %1 = "stablehlo.transpose"(%0) <{permutation = array<i64: 1, 2, 0>}> : (tensor<4x2x3xf32>) -> tensor<2x3x4xf32>
  %2 = "stablehlo.transpose"(%b) <{permutation = array<i64: 1, 0>}> : (tensor<1x5xf32>) -> tensor<5x1xf32>
  func.return %1, %0, %2 : tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<5x1xf32>
}

// CHECK:      func.func @main(%a
// CHECK-NEXT:   %0 = "stablehlo.transpose"(%a)
// CHECK-NEXT:   %1 = "stablehlo.reshape"(%b)
// CHECK-NEXT:   func.return %a, %0, %1

// -----

// A dot reads what was transposed as it was before, unless its own dimensions would come in another order.

func.func @main(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>, %c: tensor<5x4x3xf32>) -> (tensor<2x4xf32>, tensor<2x4x5xf32>) {
  %0 = "stablehlo.transpose"(%b) <{permutation = array<i64: 1, 0>}> : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %1 = "stablehlo.dot_general"(%a, %0) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %2 = "stablehlo.transpose"(%c) <{permutation = array<i64: 2, 1, 0>}> : (tensor<5x4x3xf32>) -> tensor<3x4x5xf32>
  %3 = "stablehlo.dot_general"(%a, %2) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<2x3xf32>, tensor<3x4x5xf32>) -> tensor<2x4x5xf32>
  func.return %1, %3 : tensor<2x4xf32>, tensor<2x4x5xf32>
}

// CHECK:      func.func @main(%a
// CHECK-NEXT:   %0 = "stablehlo.dot_general"(%a, %b) {{.*}}lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]
// CHECK-NEXT:   %1 = "stablehlo.transpose"(%c)
// CHECK-NEXT:   %2 = "stablehlo.dot_general"(%a, %1)
// CHECK-NEXT:   func.return %0, %2

// -----

// Of a transposed result whose rows of the first operand become innermost, the operands are exchanged: precisions too.

func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<5x6x2x3xf32>, %d: tensor<5x6x4x3xf32>) -> (tensor<4x2xf32>, tensor<5x4x6x2xf32>, tensor<5x4x6x2xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["#stablehlo<precision HIGH>", "#stablehlo<precision DEFAULT>"]}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = "stablehlo.transpose"(%0) <{permutation = array<i64: 1, 0>}> : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %2 = "stablehlo.dot_general"(%c, %d) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [3]>">}> : (tensor<5x6x2x3xf32>, tensor<5x6x4x3xf32>) -> tensor<5x6x2x4xf32>
  %3 = "stablehlo.transpose"(%2) <{permutation = array<i64: 0, 3, 1, 2>}> : (tensor<5x6x2x4xf32>) -> tensor<5x4x6x2xf32>
  %4 = "stablehlo.dot_general"(%d, %c) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [3]>">}> : (tensor<5x6x4x3xf32>, tensor<5x6x2x3xf32>) -> tensor<5x6x4x2xf32>
  %5 = "stablehlo.transpose"(%4) <{permutation = array<i64: 0, 2, 1, 3>}> : (tensor<5x6x4x2xf32>) -> tensor<5x4x6x2xf32>
  func.return %1, %3, %5 : tensor<4x2xf32>, tensor<5x4x6x2xf32>, tensor<5x4x6x2xf32>
}

// CHECK:      func.func @main(%a
// CHECK-NEXT:   %0 = "stablehlo.dot_general"(%b, %a) {{.*}}lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [1]{{.*}}DEFAULT{{.*}}HIGH{{.*}} -> tensor<4x2xf32>
// CHECK-NEXT:   %1 = "stablehlo.dot_general"(%d, %c) {{.*}} -> tensor<5x6x4x2xf32>
// CHECK-NEXT:   %2 = "stablehlo.transpose"(%1) <{permutation = array<i64: 0, 2, 1, 3>}>
// CHECK-NEXT:   func.return %0, %2, %2

// -----

// Arithmetic between a product and its transpose is on elements in the other order, if it reads nothing else that has them in this
// one: broadcasts have other dimensions, constants other places. The transpose stays where somebody else reads the product too.

func.func @main(%a: tensor<2x3xbf16>, %b: tensor<3x4xbf16>, %c: tensor<4xbf16>) -> tensor<4x2xf32> {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>
  %1 = "stablehlo.broadcast_in_dim"(%c) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xbf16>) -> tensor<2x4xbf16>
  %2 = "stablehlo.add"(%0, %1) : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  %3 = "stablehlo.logistic"(%2) : (tensor<2x4xbf16>) -> tensor<2x4xbf16>
  %4 = "stablehlo.multiply"(%2, %3) : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  %5 = "stablehlo.convert"(%4) : (tensor<2x4xbf16>) -> tensor<2x4xf32>
  %6 = "stablehlo.transpose"(%5) <{permutation = array<i64: 1, 0>}> : (tensor<2x4xf32>) -> tensor<4x2xf32>
  func.return %6 : tensor<4x2xf32>
}

// CHECK:      func.func @main(%a
// CHECK-NEXT:   %0 = "stablehlo.dot_general"(%b, %a) {{.*}} -> tensor<4x2xbf16>
// CHECK-NEXT:   %1 = "stablehlo.broadcast_in_dim"(%c) <{broadcast_dimensions = array<i64: 0>}>
// CHECK-NEXT:   %2 = "stablehlo.add"(%0, %1)
// CHECK-NEXT:   %3 = "stablehlo.logistic"(%2)
// CHECK-NEXT:   %4 = "stablehlo.multiply"(%2, %3)
// CHECK-NEXT:   %5 = "stablehlo.convert"(%4) {{.*}} -> tensor<4x2xf32>
// CHECK-NEXT:   func.return %5

func.func @constant(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"int8", [2, 2], "AAECAw==">}> : () -> tensor<2x2xi8>
  %2 = "stablehlo.convert"(%1) : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %3 = "stablehlo.subtract"(%0, %2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = "stablehlo.transpose"(%3) <{permutation = array<i64: 1, 0>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %4 : tensor<2x2xf32>
}

// CHECK:      func.func @constant(%a
// CHECK:        "stablehlo.dot_general"(%b, %a)
// CHECK-NOT:    "stablehlo.transpose"

func.func @read_twice(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> (tensor<2x4xf32>, tensor<4x2xf32>) {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = "stablehlo.negate"(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = "stablehlo.transpose"(%1) <{permutation = array<i64: 1, 0>}> : (tensor<2x4xf32>) -> tensor<4x2xf32>
  func.return %0, %2 : tensor<2x4xf32>, tensor<4x2xf32>
}

// CHECK:      func.func @read_twice(%a
// CHECK-NEXT:   %0 = "stablehlo.dot_general"(%a, %b)
// CHECK-NEXT:   %1 = "stablehlo.negate"(%0)
// CHECK-NEXT:   %2 = "stablehlo.transpose"(%1)

func.func @read_in_order(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = "stablehlo.add"(%0, %c) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = "stablehlo.transpose"(%1) <{permutation = array<i64: 1, 0>}> : (tensor<2x4xf32>) -> tensor<4x2xf32>
  func.return %2 : tensor<4x2xf32>
}

// CHECK:      func.func @read_in_order(%a
// CHECK-NEXT:   %0 = "stablehlo.dot_general"(%a, %b)

// -----

// Reshapes one after the other are one; one that only adds dimensions of size 1 is a broadcast, and broadcasts compose.

func.func @main(%a: tensor<6xf32>) -> (tensor<3x2xf32>, tensor<6x4xf32>) {
  %0 = "stablehlo.reshape"(%a) : (tensor<6xf32>) -> tensor<2x3xf32>
  %1 = "stablehlo.reshape"(%0) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = "stablehlo.reshape"(%a) : (tensor<6xf32>) -> tensor<6x1xf32>
  %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x4xf32>
  func.return %1, %3 : tensor<3x2xf32>, tensor<6x4xf32>
}

// CHECK:      func.func @main(%a
// CHECK-NEXT:   %0 = "stablehlo.reshape"(%a) : (tensor<6xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:   %1 = "stablehlo.broadcast_in_dim"(%a) <{broadcast_dimensions = array<i64: 0>}> : (tensor<6xf32>) -> tensor<6x4xf32>
// CHECK-NEXT:   func.return %0, %1

// -----

// What is done to every copy alike is done before copying.

func.func @main(%a: tensor<6xf32>, %b: tensor<6xf32>) -> tensor<4x6xf32> {
  %0 = "stablehlo.broadcast_in_dim"(%a) <{broadcast_dimensions = array<i64: 1>}> : (tensor<6xf32>) -> tensor<4x6xf32>
  %1 = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 1>}> : (tensor<6xf32>) -> tensor<4x6xf32>
  %2 = "stablehlo.add"(%0, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = "stablehlo.rsqrt"(%2) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %3 : tensor<4x6xf32>
}

// CHECK:      func.func @main(%a
// CHECK-NEXT:   %0 = "stablehlo.add"(%a, %b) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
// CHECK-NEXT:   %1 = "stablehlo.rsqrt"(%0)
// CHECK-NEXT:   %2 = "stablehlo.broadcast_in_dim"(%1)
// CHECK-NEXT:   func.return %2

// -----

// A reduction over a dimension of size 1 joins each element with the initial value.

func.func @main(%a: tensor<5x1xf32>, %i: tensor<f32>) -> tensor<5xf32> {
  %0 = "stablehlo.reduce"(%a, %i) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = "stablehlo.maximum"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) : (tensor<5x1xf32>, tensor<f32>) -> tensor<5xf32>
  func.return %0 : tensor<5xf32>
}

// CHECK:      func.func @main(%a
// CHECK-NEXT:   %0 = "stablehlo.reshape"(%a) : (tensor<5x1xf32>) -> tensor<5xf32>
// CHECK-NEXT:   %1 = "stablehlo.broadcast_in_dim"(%i)
// CHECK-NEXT:   %2 = "stablehlo.maximum"(%1, %0)
// CHECK-NEXT:   func.return %2

// -----

// Exact in floats: +0 changes -0, so it stays; -0 changes nothing. A quotient by 3 stays one, by 4 it is a product.

func.func @main(%a: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %minus_zero = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAgA==">}> : () -> tensor<f32>
  %three = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AABAQA==">}> : () -> tensor<f32>
  %four = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACAQA==">}> : () -> tensor<f32>
  %0 = "stablehlo.add"(%a, %zero) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.add"(%a, %minus_zero) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = "stablehlo.divide"(%a, %three) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %3 = "stablehlo.divide"(%a, %four) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %4 = "stablehlo.abs"(%a) : (tensor<f32>) -> tensor<f32>
  %5 = "stablehlo.add"(%4, %zero) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return %0, %1, %2, %3, %5 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// CHECK:      func.func @main(%a
// CHECK:        %0 = "stablehlo.add"(%a, %zero)
// CHECK-NEXT:   %1 = "stablehlo.divide"(%a, %three)
// CHECK-NEXT:   %2 = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACAPg==">}>
// CHECK-NEXT:   %3 = "stablehlo.multiply"(%a, %2)
// CHECK-NEXT:   %4 = "stablehlo.abs"(%a)
// CHECK-NEXT:   func.return %0, %a, %1, %3, %4

// -----

// Constants are folded, equal ops merged, unread ones dropped.

func.func @main(%a: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %c = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AgAAAA==">}> : () -> tensor<4xi32>
  %0 = "stablehlo.multiply"(%c, %c) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %1 = "stablehlo.add"(%a, %0) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %2 = "stablehlo.add"(%a, %0) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %3 = "stablehlo.negate"(%2) : (tensor<4xi32>) -> tensor<4xi32>
  func.return %1, %2 : tensor<4xi32>, tensor<4xi32>
}

// CHECK:      func.func @main(%a
// CHECK-NEXT:   %0 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "BAAAAA==">}> : () -> tensor<i32>
// CHECK-NEXT:   %1 = "stablehlo.broadcast_in_dim"(%0)
// CHECK-NEXT:   %2 = "stablehlo.add"(%a, %1)
// CHECK-NEXT:   func.return %2, %2

// -----

// A sign goes into a constant factor: here two of them leave nothing but the product.

func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AABAQA==">}> : () -> tensor<4xf32>
  %0 = "stablehlo.negate"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stablehlo.multiply"(%0, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "stablehlo.negate"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "stablehlo.multiply"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = "stablehlo.negate"(%3) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %2, %4 : tensor<4xf32>, tensor<4xf32>
}

// CHECK:      func.func @main(%a
// CHECK:        %[[C:.*]] = "stablehlo.broadcast_in_dim"
// CHECK-NEXT:   %[[X:.*]] = "stablehlo.multiply"(%a, %[[C]])
// CHECK-NEXT:   %[[Y:.*]] = "stablehlo.multiply"(%a, %b)
// CHECK-NEXT:   %[[Z:.*]] = "stablehlo.negate"(%[[Y]])
// CHECK-NEXT:   func.return %[[X]], %[[Z]]

// -----

// What is read of an iota at indices known at run time are those indices, within their rooms.

func.func @main(%i: tensor<i32>, %j: tensor<i32>) -> (tensor<1xi32>, tensor<2x3xi32>) {
  %long = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<1000xi32>
  %0 = "hlo.read_at"(%long, %i) <{map = #xla.indexing_map<"(d0) -> (d0), domain: d0 in [0, 0]">, index_maps = [#xla.indexing_map<"(d0) -> (), domain: d0 in [0, 0]">], dims = array<i64: 0>, rooms = array<i64: 999>}> : (tensor<1000xi32>, tensor<i32>) -> tensor<1xi32>
  %wide = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<8x9xi32>
  %1 = "hlo.read_at"(%wide, %i, %j) <{map = #xla.indexing_map<"(d0, d1) -> (d0, d1), domain: d0 in [0, 1], d1 in [0, 2]">, index_maps = [#xla.indexing_map<"(d0, d1) -> (), domain: d0 in [0, 1], d1 in [0, 2]">, #xla.indexing_map<"(d0, d1) -> (), domain: d0 in [0, 1], d1 in [0, 2]">], dims = array<i64: 0, 1>, rooms = array<i64: 6, 6>}> : (tensor<8x9xi32>, tensor<i32>, tensor<i32>) -> tensor<2x3xi32>
  func.return %0, %1 : tensor<1xi32>, tensor<2x3xi32>
}

// CHECK:      func.func @main(%i
// CHECK-NOT:    hlo.read_at
// CHECK:        %[[L:.*]] = "stablehlo.maximum"(%i,
// CHECK:        %[[M:.*]] = "stablehlo.minimum"(%[[L]],
// CHECK:        %[[L:.*]] = "stablehlo.maximum"(%j,
// CHECK-NOT:    hlo.read_at

// -----

// Equal ops may read constants of their own.

func.func @main(%a: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %0 = "stablehlo.reduce"(%a, %c) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %d = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAAA==">}> : () -> tensor<f32>
  %1 = "stablehlo.reduce"(%a, %d) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %e = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACAPw==">}> : () -> tensor<f32>
  %2 = "stablehlo.reduce"(%a, %e) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK:      func.func @main(%a
// CHECK:        %[[ZERO:.*]] = "stablehlo.reduce"(
// CHECK:        %[[ONE:.*]] = "stablehlo.reduce"(
// CHECK-NOT:    "stablehlo.reduce"
// CHECK:        func.return %[[ZERO]], %[[ZERO]], %[[ONE]]

// -----

// A sum that numbers all elements in the order of memory is one iota; its upper half is zero, the lower one an iota of fewer bits.

func.func @main() -> (tensor<20x30xui32>, tensor<20x30xui64>) {
  %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<20x30xui64>
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"uint64", [], "HgAAAAAAAAA=">}> : () -> tensor<20x30xui64>
  %2 = "stablehlo.multiply"(%0, %1) : (tensor<20x30xui64>, tensor<20x30xui64>) -> tensor<20x30xui64>
  %3 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<20x30xui64>
  %4 = "stablehlo.add"(%2, %3) : (tensor<20x30xui64>, tensor<20x30xui64>) -> tensor<20x30xui64>
  %5 = "stablehlo.convert"(%4) : (tensor<20x30xui64>) -> tensor<20x30xui32>
  %6 = "stablehlo.constant"() <{value = #hlo.literal<"uint64", [], "IAAAAAAAAAA=">}> : () -> tensor<20x30xui64>
  %7 = "stablehlo.shift_right_logical"(%4, %6) : (tensor<20x30xui64>, tensor<20x30xui64>) -> tensor<20x30xui64>
  func.return %5, %7 : tensor<20x30xui32>, tensor<20x30xui64>
}

// CHECK:      func.func @main()
// CHECK-NOT:    stablehlo.multiply
// CHECK:        %[[I:.*]] = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<600xui32>
// CHECK:        %[[R:.*]] = "stablehlo.reshape"(%[[I]]) : (tensor<600xui32>) -> tensor<20x30xui32>
// CHECK:        func.return %[[R]], %{{.*}}

// -----

// Contracted dimensions that are neighbours in both operands, in the same order, are one; others stay as they are.

func.func @main(%a: tensor<4x5x6x7xf32>, %b: tensor<8x4x5x7xf32>) -> tensor<7x6x8xf32> {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_batching_dimensions = [3], rhs_batching_dimensions = [3], lhs_contracting_dimensions = [1, 0], rhs_contracting_dimensions = [2, 1]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x5x6x7xf32>, tensor<8x4x5x7xf32>) -> tensor<7x6x8xf32>
  func.return %0 : tensor<7x6x8xf32>
}

// CHECK:      func.func @main(%a
// CHECK:        %[[A:.*]] = "stablehlo.reshape"(%a) : (tensor<4x5x6x7xf32>) -> tensor<20x6x7xf32>
// CHECK:        %[[B:.*]] = "stablehlo.reshape"(%b) : (tensor<8x4x5x7xf32>) -> tensor<8x20x7xf32>
// CHECK:        "stablehlo.dot_general"(%[[A]], %[[B]]) {{.*}}lhs_batching_dimensions = [2], rhs_batching_dimensions = [2], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [1]

// -----

func.func @main(%a: tensor<4x5x6xf32>, %b: tensor<5x4x8xf32>) -> tensor<6x8xf32> {
  %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [0, 1], rhs_contracting_dimensions = [1, 0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x5x6xf32>, tensor<5x4x8xf32>) -> tensor<6x8xf32>
  func.return %0 : tensor<6x8xf32>
}

// CHECK:      func.func @main(%a
// CHECK-NEXT:   "stablehlo.dot_general"(%a, %b)

// -----

// A count is not negative: an index that is one needs no wrapping.

func.func @counted() -> (tensor<40xi32>, tensor<40xi1>) {
  %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<40xi32>
  %1 = "stablehlo.constant"() <{value = #hlo.literal<"int32", [], "AAAAAA==">}> : () -> tensor<i32>
  %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<40xi32>
  %3 = "stablehlo.compare"(%0, %2) <{compare_type = "SIGNED", comparison_direction = "LT"}> : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
  %4 = "stablehlo.negate"(%0) : (tensor<40xi32>) -> tensor<40xi32>
  %5 = "stablehlo.select"(%3, %4, %0) : (tensor<40xi1>, tensor<40xi32>, tensor<40xi32>) -> tensor<40xi32>
  %6 = "stablehlo.compare"(%0, %2) <{compare_type = "SIGNED", comparison_direction = "GT"}> : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
  func.return %5, %6 : tensor<40xi32>, tensor<40xi1>
}

// CHECK:      func.func @counted()
// CHECK:        %[[I:.*]] = "stablehlo.iota"()
// CHECK-NOT:    stablehlo.select
// CHECK:        %[[C:.*]] = "stablehlo.compare"(%[[I]], %{{.*}}) <{compare_type = "SIGNED", comparison_direction = "GT"}>
// CHECK:        func.return %[[I]], %[[C]]

// -----

// Parts of what is converted to more bytes are converted, not the whole; one that is read as a whole, and what narrows, stay.

func.func @parts(%0: tensor<4x8xbf16>, %1: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xbf16>) {
  %2 = "stablehlo.convert"(%0) : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %3 = "stablehlo.slice"(%2) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 4, 4>, strides = array<i64: 1, 1>}> : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %4 = "stablehlo.slice"(%2) <{start_indices = array<i64: 0, 1>, limit_indices = array<i64: 4, 8>, strides = array<i64: 1, 2>}> : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %5 = "stablehlo.negate"(%0) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %6 = "stablehlo.convert"(%5) : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %7 = "stablehlo.slice"(%6) <{start_indices = array<i64: 0, 4>, limit_indices = array<i64: 4, 8>, strides = array<i64: 1, 1>}> : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %8 = "stablehlo.convert"(%1) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %9 = "stablehlo.slice"(%8) <{start_indices = array<i64: 0, 4>, limit_indices = array<i64: 4, 8>, strides = array<i64: 1, 1>}> : (tensor<4x8xbf16>) -> tensor<4x4xbf16>
  func.return %3, %4, %6, %7, %9 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xbf16>
}

// CHECK:      func.func @parts(
// CHECK-NEXT:   %[[A:.*]] = "stablehlo.slice"(%0) {{.*}} -> tensor<4x4xbf16>
// CHECK-NEXT:   %[[B:.*]] = "stablehlo.convert"(%[[A]]) {{.*}} -> tensor<4x4xf32>
// CHECK-NEXT:   %[[C:.*]] = "stablehlo.slice"(%0) <{{.*}}strides = array<i64: 1, 2>{{.*}} -> tensor<4x4xbf16>
// CHECK-NEXT:   %[[D:.*]] = "stablehlo.convert"(%[[C]]) {{.*}} -> tensor<4x4xf32>
// CHECK-NEXT:   %[[N:.*]] = "stablehlo.negate"(%0)
// CHECK-NEXT:   %[[E:.*]] = "stablehlo.convert"(%[[N]])
// CHECK-NEXT:   %[[F:.*]] = "stablehlo.slice"(%[[E]])
// CHECK-NEXT:   %[[G:.*]] = "stablehlo.convert"(%1)
// CHECK-NEXT:   %[[H:.*]] = "stablehlo.slice"(%[[G]])
// CHECK-NEXT:   func.return %[[B]], %[[D]], %[[E]], %[[F]], %[[H]]
