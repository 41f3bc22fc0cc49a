// RUN: %opt -p simplify %s | filecheck %s

// Constants once and on top, equal ops once, unused ops not at all.

func.func @f(%p0: tensor<8xf32>, %i: index, %b: i1) -> f32 {
  %x = tensor.extract %p0[%i] : tensor<8xf32>
  %unused = math.exp %x : f32
  %0 = scf.if %b -> (f32) {
    %c = arith.constant 0.5 : f32
    %y = tensor.extract %p0[%i] : tensor<8xf32>
    %z = arith.mulf %y, %c : f32
    scf.yield %z : f32
  } else {
    %c1 = arith.constant 0.5 : f32
    scf.yield %c1 : f32
  }
  func.return %0 : f32
}

// CHECK:      func.func @f
// CHECK-NEXT:   %c = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %x = tensor.extract %p0[%i]
// CHECK-NEXT:   scf.if
// CHECK-NEXT:     %z = arith.mulf %x, %c : f32
// CHECK-NEXT:     scf.yield %z
// CHECK-NEXT:   } else {
// CHECK-NEXT:     scf.yield %c
