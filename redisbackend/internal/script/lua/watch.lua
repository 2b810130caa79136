-- ARGV: session, and what look takes.
return look(nx())
