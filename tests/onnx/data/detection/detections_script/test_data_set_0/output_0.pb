
B104J &O™@ãß8B.÷yA€ºUBZH¡A(BK""B…ÁEBßË=Bùkù@XW~BË¯HAIíËA0¹ÒA	ÇLBWšBäîB¤é%BxBûhB—Ð?ðVYA"ƒ±AïÝÁA~sB}=ÙAx‚B^îB ÃOBç,ÁA‰B÷‡#BóvBÑ‹BgíµBå§B¦3BBP¨jBFT1B