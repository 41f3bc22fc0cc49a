// RUN: %opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

func.func @main(%a: tensor<1x8x4xi8>, %b: tensor<4x2xi8>) -> tuple<tensor<1x8x2xi8>> {
  %0 = "tx8be.Input"(%a) {layout_str = "Unknown", mem_scope = #tx8be<memscope_mode "3DDRAM">} : (tensor<1x8x4xi8>) -> tensor<1x8x4xi8>
  %1 = "tx8be.None"() : () -> none
  %2 = "tx8be.Gemm"(%0, %b, %1, %1) {op_mode = #tx8be<GemmMode Normal>, sparse_en = false, transL = false, transR = false, tile_parallel = #tx8be.parallel_attr<dp_dim_x = 4, parallel = Data>} : (tensor<1x8x4xi8>, tensor<4x2xi8>, none, none) -> tensor<1x8x2xi8>
  %3 = "tx8be.Tuple"(%2) {input_nums = 1 : i64} : (tensor<1x8x2xi8>) -> tuple<tensor<1x8x2xi8>>
  func.return %3 : tuple<tensor<1x8x2xi8>>
}
// CHECK:      "tx8be.Input"(%{{.*}}) {layout_str = "Unknown", mem_scope = #tx8be<memscope_mode "3DDRAM">}
// CHECK-NEXT: "tx8be.None"() : () -> none
// CHECK-NEXT: tile_parallel = #tx8be.parallel_attr<parallel = Data, dp_dim_x = 4>
// CHECK-NEXT: "tx8be.Tuple"

// -----

func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "tx8be.Group"(%a) ({
  ^bb0(%p: tensor<8xf32>):
    %1 = "tx8be.LoadVar"(%p) {dev_info = #tx8be.dev_attr<mem_addr = [65536, 65600], multi_buf_num = 2, multi_buf_en = true>} : (tensor<8xf32>) -> tensor<8xf32>
    "tx8be.Return"(%1) : (tensor<8xf32>) -> ()
  }) {dev_region = #tx8be.region_attr<dx = 4, dy = 4>, need_barrier = true} : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}
// CHECK: dev_info = #tx8be.dev_attr<multi_buf_en = true, multi_buf_num = 2, mem_addr = [65536, 65600]>
// CHECK: {dev_region = #tx8be.region_attr<dx = 4, dy = 4>, need_barrier = true}

// -----

func.func @main(%a: tensor<3x4x5x6xf16>) -> tensor<3x5x6x4xf16> {
  %0 = "tx8be.Transpose"(%a) {layout_str = "NHWC", permutation = array<i32: 0, 2, 3, 1>} : (tensor<3x4x5x6xf16>) -> tensor<3x5x6x4xf16>
  func.return %0 : tensor<3x5x6x4xf16>
}
// CHECK: "tx8be.Transpose"(%{{.*}}) {layout_str = "NHWC", permutation = array<i32: 0, 2, 3, 1>}

// -----

func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %1 = "tx8be.LoadVar"(%a) {dev_info = #tx8be.dev_attr<mem_addr = [65536], multi_buf_num = 2, multi_buf_en = true>} : (tensor<8xf32>) -> tensor<8xf32>
  func.return %1 : tensor<8xf32>
}
// CHECK: 1 addresses of 2 buffers: mem_addr, multi_buf_num

// -----

func.func @main(%a: tensor<8x4xi8>, %b: tensor<4x2xi8>) -> tensor<8x2xi32> {
  %0 = "tx8be.Gemm"(%a, %b) : (tensor<8x4xi8>, tensor<4x2xi8>) -> tensor<8x2xi32>
  func.return %0 : tensor<8x2xi32>
}
// CHECK: the result of tx8be.Gemm is tensor<8x2xi32>, and should be tensor<8x2xi8>

// -----

func.func @main(%x: tensor<2x4x4x8xf16>, %s: tensor<8xf32>) -> tensor<2x4x4x8xf16> {
  %0 = "tx8be.BatchNorm_Inference"(%x, %s, %s, %s, %s) : (tensor<2x4x4x8xf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x4x4x8xf16>
  func.return %0 : tensor<2x4x4x8xf16>
}
// CHECK: scale of tx8be.BatchNorm_Inference is tensor<8xf32>, and should be tensor<1x1x1x8xf32>
