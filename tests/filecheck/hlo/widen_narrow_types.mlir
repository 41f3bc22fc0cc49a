// RUN: %opt -p widen-narrow-types %s --split-input-file | filecheck %s

// Arithmetic of f8 is arithmetic of f32 between its bits taken apart and put together; what only moves it stays.

func.func @main(%a: tensor<4xf8E4M3FN>, %b: tensor<4xf8E4M3FN>) -> (tensor<4xf8E4M3FN>, tensor<2x2xf8E4M3FN>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<4xf8E4M3FN>, tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN>
  %1 = "stablehlo.reshape"(%a) : (tensor<4xf8E4M3FN>) -> tensor<2x2xf8E4M3FN>
  func.return %0, %1 : tensor<4xf8E4M3FN>, tensor<2x2xf8E4M3FN>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<4xf8E4M3FN>, %[[B:.*]]: tensor<4xf8E4M3FN>)
// CHECK-NEXT:   "hlo.to_bits"(%[[A]]) : (tensor<4xf8E4M3FN>) -> tensor<4xui8>
// CHECK:        "hlo.to_bits"(%[[B]]) : (tensor<4xf8E4M3FN>) -> tensor<4xui8>
// CHECK:        "stablehlo.add"({{.*}}) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK:        %[[S:.*]] = "hlo.from_bits"({{.*}}) : (tensor<4xui8>) -> tensor<4xf8E4M3FN>
// CHECK-NEXT:   %[[R:.*]] = "stablehlo.reshape"(%[[A]]) : (tensor<4xf8E4M3FN>) -> tensor<2x2xf8E4M3FN>
// CHECK-NEXT:   func.return %[[S]], %[[R]]

// -----

// i4 is computed in i8: shifted up and down again for its sign, and its low four bits are kept.

func.func @main(%a: tensor<4xi4>) -> tensor<4xi4> {
  %0 = "stablehlo.negate"(%a) : (tensor<4xi4>) -> tensor<4xi4>
  func.return %0 : tensor<4xi4>
}

// CHECK:      func.func @main(%[[A:.*]]: tensor<4xi4>)
// CHECK-NEXT:   %[[BITS:.*]] = "hlo.to_bits"(%[[A]])
// CHECK:        "stablehlo.shift_left"
// CHECK-NEXT:   %[[X:.*]] = "stablehlo.shift_right_arithmetic"
// CHECK-NEXT:   "stablehlo.negate"(%[[X]]) : (tensor<4xi8>) -> tensor<4xi8>
// CHECK:        %[[LOW:.*]] = "stablehlo.and"
// CHECK-NEXT:   "hlo.from_bits"(%[[LOW]]) : (tensor<4xui8>) -> tensor<4xi4>

// -----

// A byte is converted as a number, and its bits are moved by a product.
func.func @to_half(%a: tensor<4xf8E4M3FN>, %b: tensor<4xf8E5M2>) -> (tensor<4xbf16>, tensor<4xf16>) {
  %0 = "stablehlo.convert"(%a) : (tensor<4xf8E4M3FN>) -> tensor<4xbf16>
  %1 = "stablehlo.convert"(%b) : (tensor<4xf8E5M2>) -> tensor<4xf16>
  func.return %0, %1 : tensor<4xbf16>, tensor<4xf16>
}
// CHECK:      func.func @to_half
// CHECK-NEXT:   %[[B:.*]] = "hlo.to_bits"
// CHECK-NEXT:   %[[I:.*]] = "stablehlo.bitcast_convert"(%[[B]]) : (tensor<4xui8>) -> tensor<4xi8>
// CHECK-NEXT:   "stablehlo.convert"(%[[I]]) : (tensor<4xi8>) -> tensor<4xbf16>
// CHECK:        "stablehlo.and"{{.*}} -> tensor<4xi16>
// CHECK-NEXT:   "stablehlo.bitcast_convert"{{.*}} -> tensor<4xbf16>
// CHECK:        %[[Y:.*]] = "stablehlo.add"{{.*}} -> tensor<4xbf16>
// CHECK:        %[[H:.*]] = "stablehlo.bitcast_convert"{{.*}} : (tensor<4xi16>) -> tensor<4xf16>
// CHECK-NEXT:   func.return %[[Y]], %[[H]]
