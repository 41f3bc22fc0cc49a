// Starts beyond the end are moved back so that the whole slice lies inside.
module @window {
  func.func @main(%x: tensor<9x40xui16>, %i: tensor<i64>, %j: tensor<i64>) -> tensor<4x17xui16> {
    %r = stablehlo.dynamic_slice %x, %i, %j, sizes = [4, 17] : (tensor<9x40xui16>, tensor<i64>, tensor<i64>) -> tensor<4x17xui16>
    return %r : tensor<4x17xui16>
  }
}
