// RUN: %opt %s --split-input-file --verify-diagnostics | filecheck %s

builtin.module @m {
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = launch.kernel @gelu(%a) {"group" = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    func.return %0 : tensor<4xf32>
  }
  builtin.module @gelu {}
}
// CHECK: %{{.*}} = launch.kernel @gelu(%{{.*}}) {group = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>

// -----

builtin.module @m {
  func.func @main(%a: tensor<4xf32>) {
    %0 = launch.kernel @nowhere(%a) {"group" = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    func.return
  }
}
// CHECK: no kernel module @nowhere

// -----

builtin.module @m {
  func.func @main(%a: tensor<8x4xf32>, %u: tensor<1x4xf32>, %i: tensor<i32>) -> tensor<8x4xf32> {
    %0 = launch.update %a with %u at(%i, %i) : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    func.return %0 : tensor<8x4xf32>
  }
}
// CHECK: launch.update %{{.*}} with %{{.*}} at(%{{.*}}, %{{.*}}) : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>

// -----

builtin.module @m {
  func.func @main(%a: tensor<8x4xf32>) -> tensor<32xf32> {
    %0 = launch.view %a : tensor<8x4xf32> -> tensor<32xf32>
    func.return %0 : tensor<32xf32>
  }
}
// CHECK: launch.view %{{.*}} : tensor<8x4xf32> -> tensor<32xf32>

// -----

builtin.module @m {
  func.func @main(%a: tensor<8x4xf32>, %i: tensor<i32>) -> tensor<2x2xf32> {
    %0 = launch.view %a at(%i : tensor<i32>) {offset = 4, steps = array<i64: 4>, rooms = array<i64: 6>} : tensor<8x4xf32> -> tensor<2x2xf32>
    func.return %0 : tensor<2x2xf32>
  }
}
// CHECK: launch.view %{{.*}} at(%{{.*}} : tensor<i32>) {offset = 4 : i64, steps = array<i64: 4>, rooms = array<i64: 6>} : tensor<8x4xf32> -> tensor<2x2xf32>

// -----

builtin.module @m {
  func.func @main(%a: tensor<8x4xf32>, %i: tensor<i32>) -> tensor<4xf32> {
    %0 = launch.view %a at(%i : tensor<i32>) {steps = array<i64: 4>} : tensor<8x4xf32> -> tensor<4xf32>
    func.return %0 : tensor<4xf32>
  }
}
// CHECK: launch.view: each start has a step and a room

// -----

builtin.module @m {
  func.func @main(%a: tensor<8x4xf32>) -> tensor<8xf32> {
    %0 = launch.view %a {offset = 28} : tensor<8x4xf32> -> tensor<8xf32>
    func.return %0 : tensor<8xf32>
  }
}
// CHECK: launch.view: it shows more than there is
