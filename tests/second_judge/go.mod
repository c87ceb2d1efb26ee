module effectively-once/second-judge

go 1.21
