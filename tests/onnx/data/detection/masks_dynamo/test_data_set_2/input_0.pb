Bx0J@óá`Bcè
BQêB¯âBBÆvBå˜ò@½¯BvWA72uB{éÏA|%¡BÉKBŽÁË@Êi-BÜD¹AÛXmB