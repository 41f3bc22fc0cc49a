// RUN: %opt -p expand-complex %s --split-input-file | filecheck %s

// A complex tensor becomes a real one with a dimension of two parts; @main keeps its signature as an attribute.

func.func @main(%a: tensor<4xcomplex<f32>>, %b: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = "stablehlo.add"(%a, %b) : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  func.return %0 : tensor<4xcomplex<f32>>
}

// CHECK:      func.func @main(%{{.*}}: tensor<4x2xf32>, %{{.*}}: tensor<4x2xf32>) -> tensor<4x2xf32>
// CHECK-SAME: hlo.signature = (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
// CHECK:      "stablehlo.add"
// CHECK-NOT:  complex
// CHECK:      func.return %{{.*}} : tensor<4x2xf32>

// -----

// A product is four products of parts, and its real part needs nothing put together.

func.func @main(%a: tensor<4xcomplex<f32>>, %b: tensor<4xcomplex<f32>>) -> tensor<4xf32> {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %1 = "stablehlo.real"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// CHECK:      func.func @main
// CHECK:      %[[P:.*]] = "stablehlo.multiply"({{.*}}) : (tensor<4xf32>, tensor<4xf32>)
// CHECK:      %[[Q:.*]] = "stablehlo.multiply"({{.*}}) : (tensor<4xf32>, tensor<4xf32>)
// CHECK:      %[[R:.*]] = "stablehlo.subtract"(%[[P]], %[[Q]])
// CHECK:      func.return %[[R]] : tensor<4xf32>
