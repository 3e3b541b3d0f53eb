
B63J ñRB¦ê@[EZB±—AB,AÂâ¼AWA^’ôA´ÖFB•FAƒÎQBƒÜA±b@ZºAquÖ@vBüHÁALÒ¶A˜øB½6#BÓÇQ@B·AB·KBÝnB÷™ìAõóBv\BEõ@TùÿA´øAx B«$ª@ÚâB®RAÌF¨B~uA«á€B*‘AÈ6µB