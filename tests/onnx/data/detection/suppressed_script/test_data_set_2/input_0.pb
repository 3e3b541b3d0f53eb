Bx0J@÷QKBÁöšA*euBíðCB~÷A@e-BµXnBÓEBröB‚JzB
ÞpB8Y‹BïƒZBJ†vB³¼§BÒŠB