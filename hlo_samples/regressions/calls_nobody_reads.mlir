// The only call of a function is in a branch that is never taken.
module @calls_nobody_reads {
  func.func private @f(%x: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>> attributes {no_inline} {
    return %x : tensor<3xcomplex<f32>>
  }
  func.func private @g(%x: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>> attributes {no_inline} {
    %0 = call @f(%x) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    return %0 : tensor<3xcomplex<f32>>
  }
  func.func @main(%x: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = "stablehlo.case"(%c) ({
      %1 = func.call @f(%x) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
      stablehlo.return %1 : tensor<3xcomplex<f32>>
    }, {
      %2 = func.call @g(%x) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
      stablehlo.return %2 : tensor<3xcomplex<f32>>
    }) : (tensor<i32>) -> tensor<3xcomplex<f32>>
    return %0 : tensor<3xcomplex<f32>>
  }
}
