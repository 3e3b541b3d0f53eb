Bx1JpÚæ Co•CUwÖC¿Ê C4S&CRgÎC®fC=íC•o–CAƒoCÔC¨¼§CÏwC«@B
~~C‰Å­Be…ÉCßÝÏCn­ìCn/ñCç^ŠB×l¡C;SCd0ìC0TsCX’%Cü\ÏC‚§C