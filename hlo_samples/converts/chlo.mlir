// Operations that are chlo, not stablehlo.
module @chlo {
  func.func @main(%x: tensor<40xf32>) -> (tensor<40xf32>, tensor<40xf32>) {
    %erf = chlo.erf %x : tensor<40xf32> -> tensor<40xf32>
    %square = chlo.square %x : tensor<40xf32> -> tensor<40xf32>
    return %erf, %square : tensor<40xf32>, tensor<40xf32>
  }
}
