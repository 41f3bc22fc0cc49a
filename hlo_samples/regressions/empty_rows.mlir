// No row to share out among tiles.
module @empty_rows {
  func.func public @main(%x: tensor<0x4xf32>) -> tensor<0x4xf32> {
    %0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%x init: %0) applies stablehlo.maximum across dimensions = [1] : (tensor<0x4xf32>, tensor<f32>) -> tensor<0xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<0xf32>) -> tensor<0x4xf32>
    %3 = stablehlo.subtract %x, %2 : tensor<0x4xf32>
    return %3 : tensor<0x4xf32>
  }
}
