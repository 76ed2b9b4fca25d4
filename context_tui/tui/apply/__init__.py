"""Apply screen: the messages to summarise, the summary while it is written, its checks, and the decision."""
