
Bindex_3J ÅÉEBf\;AqmB“	ÙA°4kB×ßŸA"¯Bà‚4BêÌå@œxXBèøAÙ‘’BÄ´Bf‘B_SIB­ÞƒB‡ruA„vB]š¤A-Ú¢BbÚ‰BRF½A¯õžB1‰SBJJB—GPB°SZB¨zBe³RB°{9A,=€Bpš"BÏ¿ÁAÃýB2²B¦,‚B÷#BaÐBÎ¨XBòrB