return look()
