package main

func holds() any { return nil }
