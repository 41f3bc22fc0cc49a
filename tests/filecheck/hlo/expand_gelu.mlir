// RUN: %opt -p expand-gelu %s --split-input-file | filecheck %s

// A half of x erfc(-x/√2): the larger of x and -0, less a fraction of |x| times one exponential.

func.func @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAPw==">}> : () -> tensor<f32>
  %halves = "stablehlo.broadcast_in_dim"(%half) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
  %root = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "8wQ1Pw==">}> : () -> tensor<f32>
  %roots = "stablehlo.broadcast_in_dim"(%root) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
  %n = "stablehlo.negate"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %u = "stablehlo.multiply"(%n, %roots) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = "chlo.erfc"(%u) : (tensor<4xf32>) -> tensor<4xf32>
  %h = "stablehlo.multiply"(%x, %halves) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = "stablehlo.multiply"(%h, %f) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %g : tensor<4xf32>
}

// CHECK-LABEL:   func.func @gelu
// CHECK-NOT:     chlo.
// CHECK:         "stablehlo.minimum"(%x, {{.*}}-> tensor<4xf32>
// CHECK-COUNT-4: "stablehlo.divide"
// CHECK-NOT:     "stablehlo.divide"
// CHECK:         "stablehlo.exponential"{{.*}}-> tensor<4xf32>
// CHECK-NOT:     "stablehlo.exponential"
// CHECK:         [[R:%[0-9a-z]+]] = "stablehlo.maximum"(%x, {{.*}}-> tensor<4xf32>
// CHECK-NEXT:    [[G:%[0-9a-z]+]] = "stablehlo.subtract"([[R]], {{.*}}-> tensor<4xf32>
// CHECK-NEXT:    func.return [[G]]

// -----

// The same of 1 + erf, halved at the end, in bf16: the fraction is f16.

func.func @one_and_erf(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %one = "stablehlo.constant"() <{value = #hlo.literal<"bfloat16", [], "gD8=">}> : () -> tensor<bf16>
  %ones = "stablehlo.broadcast_in_dim"(%one) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<4xbf16>
  %half = "stablehlo.constant"() <{value = #hlo.literal<"bfloat16", [], "AD8=">}> : () -> tensor<bf16>
  %halves = "stablehlo.broadcast_in_dim"(%half) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<4xbf16>
  %root = "stablehlo.constant"() <{value = #hlo.literal<"bfloat16", [], "NT8=">}> : () -> tensor<bf16>
  %roots = "stablehlo.broadcast_in_dim"(%root) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<4xbf16>
  %u = "stablehlo.multiply"(%roots, %x) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  %e = "chlo.erf"(%u) : (tensor<4xbf16>) -> tensor<4xbf16>
  %f = "stablehlo.add"(%ones, %e) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  %d = "stablehlo.multiply"(%f, %x) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  %g = "stablehlo.multiply"(%d, %halves) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  func.return %g : tensor<4xbf16>
}

// CHECK-LABEL:   func.func @one_and_erf
// CHECK-COUNT-2: "stablehlo.divide"{{.*}}-> tensor<4xf16>
// CHECK:         "stablehlo.exponential"{{.*}}-> tensor<4xbf16>
// CHECK:         "stablehlo.maximum"{{.*}}-> tensor<4xbf16>
// CHECK-NEXT:    [[G:%[0-9a-z]+]] = "stablehlo.subtract"{{.*}}-> tensor<4xbf16>
// CHECK-NEXT:    func.return [[G]]

// -----

// Behind a product of f32 at DEFAULT precision and its offset: a logistic function, also of 1 + erf.

func.func @product(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>, %c: tensor<6xf32>) -> tensor<4x6xf32> {
  %one = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AACAPw==">}> : () -> tensor<f32>
  %ones = "stablehlo.broadcast_in_dim"(%one) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
  %half = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAPw==">}> : () -> tensor<f32>
  %halves = "stablehlo.broadcast_in_dim"(%half) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
  %root = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "8wQ1Pw==">}> : () -> tensor<f32>
  %roots = "stablehlo.broadcast_in_dim"(%root) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
  %p = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["DEFAULT", "DEFAULT"]}> : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %cs = "stablehlo.broadcast_in_dim"(%c) <{broadcast_dimensions = array<i64: 1>}> : (tensor<6xf32>) -> tensor<4x6xf32>
  %x = "stablehlo.add"(%p, %cs) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %u = "stablehlo.multiply"(%x, %roots) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %e = "chlo.erf"(%u) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %f = "stablehlo.add"(%e, %ones) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %h = "stablehlo.multiply"(%x, %halves) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %g = "stablehlo.multiply"(%h, %f) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %g : tensor<4x6xf32>
}

// CHECK-LABEL:   func.func @product
// CHECK:         [[X:%[0-9a-z]+]] = "stablehlo.add"
// CHECK:         "stablehlo.multiply"([[X]], [[X]])
// CHECK-NOT:     chlo.
// CHECK:         [[S:%[0-9a-z]+]] = "stablehlo.logistic"
// CHECK-NEXT:    [[G:%[0-9a-z]+]] = "stablehlo.multiply"([[X]], [[S]])
// CHECK-NEXT:    func.return [[G]]

// -----

// At HIGHEST precision it stays what f32 needs.

func.func @precise(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %half = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "AAAAPw==">}> : () -> tensor<f32>
  %halves = "stablehlo.broadcast_in_dim"(%half) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
  %root = "stablehlo.constant"() <{value = #hlo.literal<"float32", [], "8wQ1Pw==">}> : () -> tensor<f32>
  %roots = "stablehlo.broadcast_in_dim"(%root) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
  %x = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #hlo.struct<"#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>">, precision_config = ["HIGHEST", "HIGHEST"]}> : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %n = "stablehlo.negate"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %u = "stablehlo.multiply"(%n, %roots) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %f = "chlo.erfc"(%u) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %h = "stablehlo.multiply"(%x, %halves) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %g = "stablehlo.multiply"(%h, %f) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %g : tensor<4x6xf32>
}

// CHECK-LABEL:   func.func @precise
// CHECK-COUNT-4: "stablehlo.divide"
// CHECK-NOT:     "stablehlo.logistic"

// -----

// The erfc of something else stays, as do one that is read twice, one of another multiple, and every other type.

func.func @others(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf16>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf16>) {
  %f = "chlo.erfc"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = "stablehlo.multiply"(%x, %f) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %h = "chlo.erfc"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stablehlo.multiply"(%x, %h) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %i = "chlo.erfc"(%z) : (tensor<4xf16>) -> tensor<4xf16>
  %2 = "stablehlo.multiply"(%z, %i) : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
  func.return %0, %1, %h, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf16>
}

// CHECK-LABEL:   func.func @others
// CHECK:         [[F:%[0-9a-z]+]] = "chlo.erfc"(%y)
// CHECK-NEXT:    "stablehlo.multiply"(%x, [[F]])
// CHECK-NEXT:    [[H:%[0-9a-z]+]] = "chlo.erfc"(%x)
// CHECK-NEXT:    "stablehlo.multiply"(%x, [[H]])
// CHECK-NEXT:    [[I:%[0-9a-z]+]] = "chlo.erfc"(%z)
// CHECK-NEXT:    "stablehlo.multiply"(%z, [[I]])
