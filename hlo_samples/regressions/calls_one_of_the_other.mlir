// @main calls both functions, the first one first, and the second one calls the first.
module @calls_one_of_the_other {
  func.func private @first(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {no_inline} {
    %0 = stablehlo.sine %x : tensor<3x5xf32>
    return %0 : tensor<3x5xf32>
  }
  func.func private @second(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {no_inline} {
    %0 = call @first(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32>
    %1 = stablehlo.multiply %0, %x : tensor<3x5xf32>
    return %1 : tensor<3x5xf32>
  }
  func.func @main(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %0 = call @first(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32>
    %1 = call @second(%0) : (tensor<3x5xf32>) -> tensor<3x5xf32>
    return %1 : tensor<3x5xf32>
  }
}
