#!lua
local other = stranger(true)
if other then return {'other', other} end
local refused = conflict(4)
if refused then return refused end
write_all(4, text(now()))
return {'ok'}
