// Functions that stay functions: called in loops, in branches, by each other; with several results, with one twice, of complex numbers.
module @calls {
  func.func private @turned(%z: tensor<5x7xcomplex<f32>>, %x: tensor<5x7xf32>) -> (tensor<5x7xcomplex<f32>>, tensor<5x7xf32>) attributes {no_inline} {
    %0 = stablehlo.complex %x, %x : tensor<5x7xcomplex<f32>>
    %1 = stablehlo.multiply %z, %0 : tensor<5x7xcomplex<f32>>
    %2 = stablehlo.sine %x : tensor<5x7xf32>
    return %1, %2 : tensor<5x7xcomplex<f32>>, tensor<5x7xf32>
  }
  func.func private @step(%x: tensor<5x7xf32>, %i: tensor<i32>) -> (tensor<5x7xf32>, tensor<i32>, tensor<5x7xf32>) attributes {no_inline} {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %parity = stablehlo.remainder %i, %two : tensor<i32>
    %y = "stablehlo.case"(%parity) ({
      %zero = stablehlo.constant dense<0.0> : tensor<5x7xf32>
      %z = stablehlo.complex %x, %zero : tensor<5x7xcomplex<f32>>
      %t:2 = func.call @turned(%z, %x) : (tensor<5x7xcomplex<f32>>, tensor<5x7xf32>) -> (tensor<5x7xcomplex<f32>>, tensor<5x7xf32>)
      %u:2 = func.call @turned(%t#0, %t#1) : (tensor<5x7xcomplex<f32>>, tensor<5x7xf32>) -> (tensor<5x7xcomplex<f32>>, tensor<5x7xf32>)
      %v = stablehlo.imag %u#0 : (tensor<5x7xcomplex<f32>>) -> tensor<5x7xf32>
      stablehlo.return %v : tensor<5x7xf32>
    }, {
      %c = stablehlo.cosine %x : tensor<5x7xf32>
      stablehlo.return %c : tensor<5x7xf32>
    }) : (tensor<i32>) -> tensor<5x7xf32>
    return %y, %j, %x : tensor<5x7xf32>, tensor<i32>, tensor<5x7xf32>
  }
  func.func @main(%x: tensor<5x7xf32>, %limit: tensor<i32>) -> (tensor<5x7xf32>, tensor<5x7xf32>, tensor<f32>, tensor<5x7xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %five = stablehlo.constant dense<5> : tensor<i32>
    %end = stablehlo.clamp %zero, %limit, %five : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<5x7xf32>
     cond {
      %less = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %s:3 = func.call @step(%a, %i) : (tensor<5x7xf32>, tensor<i32>) -> (tensor<5x7xf32>, tensor<i32>, tensor<5x7xf32>)
      stablehlo.return %s#1, %s#0 : tensor<i32>, tensor<5x7xf32>
    }
    %1:3 = func.call @step(%0#1, %zero) : (tensor<5x7xf32>, tensor<i32>) -> (tensor<5x7xf32>, tensor<i32>, tensor<5x7xf32>)
    %2:3 = func.call @step(%1#0, %1#1) : (tensor<5x7xf32>, tensor<i32>) -> (tensor<5x7xf32>, tensor<i32>, tensor<5x7xf32>)
    %3 = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%2#0 init: %3) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x7xf32>, tensor<f32>) -> tensor<f32>
    return %2#0, %1#2, %sum, %2#2 : tensor<5x7xf32>, tensor<5x7xf32>, tensor<f32>, tensor<5x7xf32>
  }
}
