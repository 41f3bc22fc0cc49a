// A chlo op that names a dimension other than the last one was refused.
module @chlo_broadcast_dimensions {
  func.func public @main(%x: tensor<5x5xf32>, %y: tensor<5xf32>, %z: tensor<3x5x7xi32>, %w: tensor<3x1xi32>) -> (tensor<5x5xf32>, tensor<3x5x7xi32>) {
    %0 = chlo.broadcast_divide %x, %y {broadcast_dimensions = array<i64: 0>} : (tensor<5x5xf32>, tensor<5xf32>) -> tensor<5x5xf32>
    %1 = chlo.broadcast_subtract %w, %z {broadcast_dimensions = array<i64: 0, 1>} : (tensor<3x1xi32>, tensor<3x5x7xi32>) -> tensor<3x5x7xi32>
    return %0, %1 : tensor<5x5xf32>, tensor<3x5x7xi32>
  }
}
