module second-judge

go 1.21
