// An image in tx8be: channels last, normalised, then a convolution and a product, with what the table of the dialect leaves out.
module {
  func.func @main(%arg0: tensor<3x4x5x6xbf16>, %arg1: tensor<1x1x1x4xf32>, %arg2: tensor<1x1x1x4xf32>, %arg3: tensor<4x8xbf16>, %arg4: tensor<8xbf16>, %arg5: tensor<3x3x8x4xbf16>) -> tuple<tensor<90x8xbf16>, tuple<tensor<3x5x6x8xbf16>>> {
    %0 = "tx8be.Input"(%arg0) {layout_str = "NCHW", mem_scope = #tx8be<memscope_mode DDR>} : (tensor<3x4x5x6xbf16>) -> tensor<3x4x5x6xbf16>
    %1 = "tx8be.Transpose"(%0) {layout_str = "NHWC", permutation = array<i32: 0, 2, 3, 1>} : (tensor<3x4x5x6xbf16>) -> tensor<3x5x6x4xbf16>
    %2 = "tx8be.BatchNorm_Inference"(%1, %arg1, %arg1, %arg1, %arg2) {layout_str = "NHWC"} : (tensor<3x5x6x4xbf16>, tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>) -> tensor<3x5x6x4xbf16>
    %3 = "tx8be.None"() : () -> none
    %4 = "tx8be.Conv"(%2, %arg5, %arg4, %3) {layout_str = "NHWC-HWOI-NHWC", pads = array<i32: 1, 1, 1, 1>} : (tensor<3x5x6x4xbf16>, tensor<3x3x8x4xbf16>, tensor<8xbf16>, none) -> tensor<3x5x6x8xbf16>
    %5 = "tx8be.Reshape"(%2) : (tensor<3x5x6x4xbf16>) -> tensor<90x4xbf16>
    %6 = "tx8be.Gemm"(%5, %arg3, %3, %3) {op_mode = #tx8be<GemmMode Normal>} : (tensor<90x4xbf16>, tensor<4x8xbf16>, none, none) -> tensor<90x8xbf16>
    %7 = "tx8be.Add"(%6, %arg4) : (tensor<90x8xbf16>, tensor<8xbf16>) -> tensor<90x8xbf16>
    %8 = "tx8be.Tuple"(%4) {input_nums = 1 : i64, layout_str = "Tuple"} : (tensor<3x5x6x8xbf16>) -> tuple<tensor<3x5x6x8xbf16>>
    %9 = "tx8be.Tuple"(%7, %8) {input_nums = 2 : i64, layout_str = "Tuple"} : (tensor<90x8xbf16>, tuple<tensor<3x5x6x8xbf16>>) -> tuple<tensor<90x8xbf16>, tuple<tensor<3x5x6x8xbf16>>>
    %10 = "tx8be.Output"(%9) {layout_str = "Tuple", mem_scope = #tx8be<memscope_mode DDR>} : (tuple<tensor<90x8xbf16>, tuple<tensor<3x5x6x8xbf16>>>) -> tuple<tensor<90x8xbf16>, tuple<tensor<3x5x6x8xbf16>>>
    return %10 : tuple<tensor<90x8xbf16>, tuple<tensor<3x5x6x8xbf16>>>
  }
}
