// Conversions between floats, integers and pred: rounding, saturation, wrapping.
module @narrow_wide {
  func.func @main(%x: tensor<3x67xf32>, %i: tensor<3x67xi32>)
      -> (tensor<3x67xbf16>, tensor<3x67xi8>, tensor<3x67xui8>, tensor<3x67xf16>, tensor<3x67xi1>) {
    %bf16 = stablehlo.convert %x : (tensor<3x67xf32>) -> tensor<3x67xbf16>
    %s8 = stablehlo.convert %i : (tensor<3x67xi32>) -> tensor<3x67xi8>
    %u8 = stablehlo.convert %x : (tensor<3x67xf32>) -> tensor<3x67xui8>
    %f16 = stablehlo.convert %i : (tensor<3x67xi32>) -> tensor<3x67xf16>
    %pred = stablehlo.convert %i : (tensor<3x67xi32>) -> tensor<3x67xi1>
    return %bf16, %s8, %u8, %f16, %pred
      : tensor<3x67xbf16>, tensor<3x67xi8>, tensor<3x67xui8>, tensor<3x67xf16>, tensor<3x67xi1>
  }
}
