"""What is the cheapest way?"""
