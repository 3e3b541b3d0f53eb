
Bindex_6J Æs¬A,^BÊ†BH¨gBÄ BðèB@(BdIWB©hBQlA¯8œB?ì¿AùMÕAA@ÞAÿƒB\uZB5&BÞÁÈAUeWB^0BümªA¨HBj;B
?˜B<3BÎ!BîŒB¦—B.bžAø7BŒ….BTB$ôGBàZApSBþÿÁA6DdB›WDB‹´‰B"v€B