module @layer_norm {
  func.func @main(%x: tensor<24x200xf32>, %scale: tensor<200xf32>, %offset: tensor<200xf32>) -> tensor<24x200xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %share = stablehlo.constant dense<5.0e-3> : tensor<24xf32>
    %epsilon = stablehlo.constant dense<1.0e-5> : tensor<24xf32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<24x200xf32>, tensor<f32>) -> tensor<24xf32>
    %mean = stablehlo.multiply %sum, %share : tensor<24xf32>
    %means = stablehlo.broadcast_in_dim %mean, dims = [0] : (tensor<24xf32>) -> tensor<24x200xf32>
    %centred = stablehlo.subtract %x, %means : tensor<24x200xf32>
    %squares = stablehlo.multiply %centred, %centred : tensor<24x200xf32>
    %spread = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<24x200xf32>, tensor<f32>) -> tensor<24xf32>
    %variance = stablehlo.multiply %spread, %share : tensor<24xf32>
    %safe = stablehlo.add %variance, %epsilon : tensor<24xf32>
    %inverse = stablehlo.rsqrt %safe : tensor<24xf32>
    %inverses = stablehlo.broadcast_in_dim %inverse, dims = [0] : (tensor<24xf32>) -> tensor<24x200xf32>
    %normal = stablehlo.multiply %centred, %inverses : tensor<24x200xf32>
    %scales = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<200xf32>) -> tensor<24x200xf32>
    %scaled = stablehlo.multiply %normal, %scales : tensor<24x200xf32>
    %offsets = stablehlo.broadcast_in_dim %offset, dims = [1] : (tensor<200xf32>) -> tensor<24x200xf32>
    %r = stablehlo.add %scaled, %offsets : tensor<24x200xf32>
    return %r : tensor<24x200xf32>
  }
}
